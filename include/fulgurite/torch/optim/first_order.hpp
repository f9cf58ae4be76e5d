#pragma once
// Adam, AdamW, RMSprop, Adagrad and SGD, each in one pass over flat buffers.

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>

namespace fulgurite::optim {

/// Options of optim::Adam, with the names and defaults of torch.optim.Adam. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct AdamOptions {
  double lr = 1e-3;                            ///< the learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the running means of the gradient and of its square
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 0;                     ///< this multiple of the parameter is added to the gradient
  bool amsgrad = false;                        ///< divide by the largest running mean of the square so far

  void state(auto& archive);
};

/// Options of optim::AdamW, with the names and defaults of torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;                            ///< the learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the running means of the gradient and of its square
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 1e-2;                  ///< each step shrinks the parameter itself by this share, times the rate
  bool amsgrad = false;                        ///< divide by the largest running mean of the square so far

  void state(auto& archive);
};

namespace rule {

/// `Decoupled`: weight decay acts on the parameter, as in AdamW.
template <class O, bool Decoupled>
struct Adam {
  using Options = O;
  static constexpr std::string_view name = Decoupled ? "AdamW" : "Adam";
  static constexpr std::array<std::string_view, 3> states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  static std::array<std::optional<double>, 3> initial(Options const& o) {
    return {0.0, 0.0, o.amsgrad ? std::optional(0.0) : std::nullopt};
  }
  static void check(Options const& o) {
    require_option(o.lr >= 0, name, "lr", o.lr);
    require_option(o.eps >= 0, name, "eps", o.eps);
    require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
    for (auto const beta : o.betas) require_option(beta >= 0 && beta < 1, name, "betas", beta);
  }
  static std::optional<double> momentum(Options const& o) { return o.betas[0]; }
  static void set_momentum(Options& o, double value) { o.betas[0] = value; }

  Adam(Options const& o, long steps_before)
      : o_(o),
        kept_(1 - o.lr * o.weight_decay),
        correction1_(1 - std::pow(o.betas[0], static_cast<double>(steps_before + 1))),
        correction2_(1 - std::pow(o.betas[1], static_cast<double>(steps_before + 1))) {}

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V exp_avg, V exp_avg_sq, V max_exp_avg_sq) const {
    if (o_.weight_decay != 0) {
      if constexpr (Decoupled) p.mul_(kept_);
      else g = g.add(p, o_.weight_decay);
    }
    libtorch::scale_and_add(exp_avg, o_.betas[0], g, 1 - o_.betas[0]);
    libtorch::scale_and_addcmul(exp_avg_sq, o_.betas[1], g, g, 1 - o_.betas[1]);
    if (o_.amsgrad) libtorch::take_maximum(max_exp_avg_sq, exp_avg_sq);
    auto const root = (o_.amsgrad ? max_exp_avg_sq : exp_avg_sq).sqrt();
    libtorch::add_quotient(p, exp_avg, root, std::sqrt(correction2_), o_.eps, -(o_.lr / correction1_));
  }

 private:
  Options o_;
  double kept_, correction1_, correction2_;
};

}  // namespace rule

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamOptions, false>);
FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamWOptions, true>);

/// The updates of torch::optim::Adam in one pass over flat buffers; see ArenaOptimizer. In a model's
/// configure_optimizers: `return optim::Adam(*this, {.lr = 1e-3});`. States: exp_avg, exp_avg_sq, and max_exp_avg_sq
/// with amsgrad.
class Adam : public ArenaOptimizer<rule::Adam<AdamOptions, false>> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(Adam);
};

/// The updates of torch::optim::AdamW in one pass over flat buffers: `optim::AdamW(*this, {.lr = 1e-3})`. States as
/// Adam's.
class AdamW : public ArenaOptimizer<rule::Adam<AdamWOptions, true>> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(AdamW);
};

/// Options of optim::RMSprop, with the names and defaults of torch.optim.RMSprop. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct RMSpropOptions {
  double lr = 1e-2;         ///< the learning rate
  double alpha = 0.99;      ///< decay of the running mean of the squared gradient
  double eps = 1e-8;        ///< added to the denominator
  double weight_decay = 0;  ///< this multiple of the parameter is added to the gradient
  double momentum = 0;      ///< decay of the running sum of updates; 0: none
  bool centered = false;    ///< subtract the squared mean of the gradient: its variance instead of its square

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
    libtorch::scale_and_addcmul(square_avg, o_.alpha, g, g, 1 - o_.alpha);
    if (o_.centered) libtorch::scale_and_add(grad_avg, o_.alpha, g, 1 - o_.alpha);
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
  FULGURITE_OPTIM_OPTIONS(RMSprop);
};

/// Options of optim::Adagrad, with the names and defaults of torch.optim.Adagrad. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct AdagradOptions {
  double lr = 1e-2;                      ///< the learning rate
  double lr_decay = 0;                   ///< the rate is divided by 1 + lr_decay * steps
  double weight_decay = 0;               ///< this multiple of the parameter is added to the gradient
  double initial_accumulator_value = 0;  ///< where the sums of squared gradients start
  double eps = 1e-10;                    ///< added to the denominator

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
  FULGURITE_OPTIM_OPTIONS(Adagrad);
};

/// Options of optim::SGD, with the names and defaults of torch.optim.SGD. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct SGDOptions {
  double lr = 1e-3;         ///< the learning rate
  double momentum = 0;      ///< decay of the running sum of updates; 0: none
  double dampening = 0;     ///< the share of the gradient that the momentum does not take
  double weight_decay = 0;  ///< this multiple of the parameter is added to the gradient
  bool nesterov = false;    ///< look ahead along the momentum; requires momentum > 0 and dampening = 0

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
      else libtorch::scale_and_add(momentum_buffer, o_.momentum, g, 1 - o_.dampening);
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
  FULGURITE_OPTIM_OPTIONS(SGD);
};

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/first_order.ipp>
#endif
