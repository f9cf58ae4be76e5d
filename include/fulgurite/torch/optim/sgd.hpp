#pragma once
// Gradient descent, with or without momentum, in one pass over flat buffers.

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>

namespace fulgurite::optim {

/// Options of optim::SGD, with the names and defaults of torch.optim.SGD. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< requires momentum > 0 and dampening = 0

  void state(auto& archive);
};

namespace rule {

/// The update rule of SGD, for one run of the arena.
struct SGD {
  using Options = SGDOptions;
  static constexpr std::string_view name = "SGD";
  static constexpr std::array<std::string_view, 1> states = {"momentum_buffer"};
  static std::array<std::optional<double>, 1> initial(Options const& o);
  static void check(Options const& o);
  static std::optional<double> momentum(Options const& o) { return o.momentum; }
  static void set_momentum(Options& o, double value) { o.momentum = value; }

  SGD(Options const& o, long steps_before);

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V momentum_buffer) const {
    if (o_.weight_decay != 0) g = g.add(p, o_.weight_decay);
    if (o_.momentum != 0) {
      if (first_) momentum_buffer.copy_(g);
      else momentum_buffer.mul_(o_.momentum).add_(g, 1 - o_.dampening);
      g = o_.nesterov ? g.add(momentum_buffer, o_.momentum) : momentum_buffer;
    }
    p.add_(g, -1 * o_.lr);
  }

 private:
  Options o_;
  bool first_;
};

}  // namespace rule

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::SGD);

/// The updates of torch::optim::SGD in one pass over flat buffers; see ArenaOptimizer. Use it as `optim::SGD(*this,
/// {.lr = 0.1, .momentum = 0.9})`. State: momentum_buffer, if momentum is not 0.
class SGD : public ArenaOptimizer<rule::SGD> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
};

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/sgd.ipp>
#endif
