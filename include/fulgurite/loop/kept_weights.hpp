#pragma once
// Copies of a model's weights and buffers, to go back to.

#include <cstddef>
#include <vector>

namespace fulgurite::loop {

/// R: the key of a run.
template <class R>
class KeptWeights {
  using Backend = typename R::Backend;
  using Values = std::vector<typename Backend::Value>;

 public:
  void keep(typename R::Model& model) {
    weights_ = Backend::clones(Backend::weights(model));
    buffers_ = Backend::clones(Backend::buffers(model));
  }
  /// Writes them into the tensors that the model has now.
  void put_back(typename R::Model& model) const {
    copy(Backend::weights(model), weights_);
    copy(Backend::buffers(model), buffers_);
  }

 private:
  static void copy(Values to, Values const& from) {
    for (std::size_t i = 0; i != to.size() && i != from.size(); ++i) Backend::copy_into(to[i], from[i]);
  }

  Values weights_{}, buffers_{};
};

}  // namespace fulgurite::loop
