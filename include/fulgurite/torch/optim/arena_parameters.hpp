#pragma once
// The parameters of an arena as a range, as loops, clipping and strategies ask an optimizer for them.

#include <cstddef>
#include <span>

#include <ATen/core/Tensor.h>

#include <fulgurite/torch/optim/arena.hpp>

namespace fulgurite::libtorch {

/// The parameters of an arena as a range that knows their gradients as a whole, which is what clipping takes.
class ArenaParameters : public std::span<at::Tensor const> {
 public:
  explicit ArenaParameters(Arena& arena) : std::span<at::Tensor const>(arena.parameters()), arena_(&arena) {
    arena.look();
  }

  template <class F>
  void each_gradient(F&& f) const {
    arena_->each_gradient(f);
  }
  /// The same for each gradient by itself, as the norm of their norms needs it.
  template <class F>
  void each_received(F&& f) const {
    arena_->each_received(f);
  }
  /// Whether the parameter at this position had a gradient when this range was asked for.
  bool has_gradient(std::size_t position) const { return arena_->slots()[position].received; }
  /// For a strategy that exchanges the gradients with other processes.
  Arena& arena() const { return *arena_; }
  bool no_gradients() const {
    bool none = true;
    arena_->each_gradient([&](auto const&) { none = false; });
    return none;
  }

 private:
  Arena* arena_;
};

}  // namespace fulgurite::libtorch
