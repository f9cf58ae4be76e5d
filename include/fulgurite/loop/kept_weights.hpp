#pragma once
// Copies of a model's weights and buffers, to go back to.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
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
  /// With the names, so that `difference` tells a model whose tensors have other ones.
  void keep_named(typename R::Model& model) {
    keep(model);
    names_ = Backend::weight_names(model);
  }
  /// What a model has that these were not taken of; empty where they fit it.
  std::string difference(typename R::Model& model) const {
    auto const names = Backend::weight_names(model);
    for (std::size_t i = 0; i != names.size() && i != names_.size(); ++i)
      if (names[i] != names_[i]) return "it has '" + names[i] + "' where '" + names_[i] + "' was";
    auto const weights = difference("weights", Backend::weights(model), weights_);
    return weights.empty() ? difference("buffers", Backend::buffers(model), buffers_) : weights;
  }
  /// Writes them into the tensors that the model has now.
  void put_back(typename R::Model& model) const {
    copy(Backend::weights(model), weights_);
    copy(Backend::buffers(model), buffers_);
  }

 private:
  static std::string difference(std::string const& what, Values const& now, Values const& kept) {
    if (now.size() != kept.size())
      return std::to_string(now.size()) + " " + what + " where there were " + std::to_string(kept.size());
    for (std::size_t i = 0; i != now.size(); ++i) {
      auto const is = Backend::saved(now[i]), was = Backend::saved(kept[i]);
      if (is.dtype() != was.dtype() || is.shape() != was.shape())
        return "number " + std::to_string(i) + " of the " + what + " is " + is.description() + " and was " +
               was.description();
    }
    return {};
  }
  static void copy(Values const& to, Values const& from) {
    auto const both = std::min(to.size(), from.size());
    Backend::copy_into(std::span(to).first(both), std::span(from).first(both));
  }

  Values weights_{}, buffers_{};
  std::vector<std::string> names_{};  ///< of both
};

}  // namespace fulgurite::loop
