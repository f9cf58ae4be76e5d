#pragma once
// RMSprop in one pass over flat buffers.

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>

namespace fulgurite::optim {

/// Options of optim::RMSprop, with the names and defaults of torch.optim.RMSprop. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;

  void state(auto& archive);
};

namespace rule {

/// The update rule of RMSprop, for one run of the arena.
struct RMSprop {
  using Options = RMSpropOptions;
  static constexpr std::string_view name = "RMSprop";
  static constexpr std::array<std::string_view, 3> states = {"square_avg", "momentum_buffer", "grad_avg"};
  static std::array<std::optional<double>, 3> initial(Options const& o);
  static void check(Options const& o);
  static std::optional<double> momentum(Options const& o) { return o.momentum; }
  static void set_momentum(Options& o, double value) { o.momentum = value; }

  RMSprop(Options const& o, long) : o_(o) {}

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V square_avg, V momentum_buffer, V grad_avg) const {
    if (o_.weight_decay != 0) g = g.add(p, o_.weight_decay);
    square_avg.mul_(o_.alpha).addcmul_(g, g, 1 - o_.alpha);
    if (o_.centered) grad_avg.mul_(o_.alpha).add_(g, 1 - o_.alpha);
    auto const average = (o_.centered ? square_avg.addcmul(grad_avg, grad_avg, -1) : square_avg).sqrt().add_(o_.eps);
    if (o_.momentum > 0) {
      momentum_buffer.mul_(o_.momentum).addcdiv_(g, average);
      p.add_(momentum_buffer, -o_.lr);
    } else {
      p.addcdiv_(g, average, -o_.lr);
    }
  }

 private:
  Options o_;
};

}  // namespace rule

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::RMSprop);

/// The updates of torch::optim::RMSprop in one pass over flat buffers; see ArenaOptimizer. Use it as
/// `optim::RMSprop(*this, {.lr = 0.01})`. States: square_avg, momentum_buffer with momentum, grad_avg if centered.
class RMSprop : public ArenaOptimizer<rule::RMSprop> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
};

/// Options of optim::Adagrad, with the names and defaults of torch.optim.Adagrad. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;

  void state(auto& archive);
};

namespace rule {

/// The update rule of Adagrad, for one run of the arena.
struct Adagrad {
  using Options = AdagradOptions;
  static constexpr std::string_view name = "Adagrad";
  static constexpr std::array<std::string_view, 1> states = {"sum"};
  static std::array<std::optional<double>, 1> initial(Options const& o) { return {o.initial_accumulator_value}; }
  static void check(Options const& o);
  static std::optional<double> momentum(Options const&) { return std::nullopt; }

  Adagrad(Options const& o, long steps_before);

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V sum) const {
    if (o_.weight_decay != 0) g = g.add(p, o_.weight_decay);
    sum.addcmul_(g, g, 1.0);
    p.addcdiv_(g, sum.sqrt().add_(o_.eps), -rate_);
  }

 private:
  Options o_;
  double rate_;
};

}  // namespace rule

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adagrad);

/// The updates of torch::optim::Adagrad in one pass over flat buffers; see ArenaOptimizer. Use it as
/// `optim::Adagrad(*this, {.lr = 0.01})`. State: sum.
class Adagrad : public ArenaOptimizer<rule::Adagrad> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
};

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/rmsprop.ipp>
#endif
