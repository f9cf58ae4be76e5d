#pragma once
// Adagrad in one pass over flat buffers.

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>

namespace fulgurite::optim {

/// Options of optim::Adagrad, with the names and defaults of torch.optim.Adagrad; [fulgurite.optim.option] where one is
/// out of its range.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;

  void state(auto& archive) {
    archive("lr", lr).option("lr_decay", lr_decay).option("weight_decay", weight_decay);
    archive.option("initial_accumulator_value", initial_accumulator_value).option("eps", eps);
  }
};

namespace rule {

/// The update of Adagrad, for the numbers of one stretch of the arena: one pass over all of them.
struct Adagrad {
  using Options = AdagradOptions;
  static constexpr std::string_view name = "Adagrad";
  static constexpr std::array<std::string_view, 1> states = {"sum"};
  static std::array<std::optional<double>, 1> initial(Options const& o) { return {o.initial_accumulator_value}; }
  FULGURITE_COLD static void check(Options const& o) {
    require_option(o.lr >= 0, name, "lr", o.lr);
    require_option(o.lr_decay >= 0, name, "lr_decay", o.lr_decay);
    require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
    require_option(o.initial_accumulator_value >= 0, name, "initial_accumulator_value", o.initial_accumulator_value);
    require_option(o.eps >= 0, name, "eps", o.eps);
  }
  static std::optional<double> momentum(Options const&) { return std::nullopt; }

  Adagrad(Options const& o, long steps_before)
      : o_(o), rate_(o.lr / (1 + static_cast<double>(steps_before) * o.lr_decay)) {}

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

/// `optim::Adagrad(*this, {.lr = 0.01})`: the steps of torch::optim::Adagrad, in one pass over flat buffers; see
/// ArenaOptimizer. State sum.
class Adagrad : public ArenaOptimizer<rule::Adagrad> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
};

}  // namespace fulgurite::optim
