#pragma once
// Training without an optimizer: steps count, nothing moves.

#include <cstddef>
#include <string_view>
#include <tuple>
#include <vector>

#include <fulgurite/loop/optimizers.hpp>

namespace fulgurite {

/// `NoOptimizer configure_optimizers() { return {}; }`: for measuring a model, or one that updates itself. Backward
/// runs, hooks are called, steps are counted; no parameter changes and no gradient is cleared.
struct NoOptimizer {};

namespace loop {

/// What the loops drive in its place.
template <class Value>
struct AbsentOptimizer {
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr bool state_in_parts = true;
  static constexpr std::string_view name() { return "NoOptimizer"; }
  void zero_grad() {}
  void step() {}
  std::size_t groups() const { return 0; }
  double lr(std::size_t) const { return 0; }
  void set_lr(std::size_t, double) {}
  std::vector<Value> const& parameters() const { return none; }
  void state(auto&) {}
  std::vector<Value> none = {};
};

template <class Backend>
struct Entry<Backend, NoOptimizer> {
  static constexpr bool scheduled = false;
  using Optimizer = AbsentOptimizer<typename Backend::Value>;
  using Schedulers = std::tuple<Scheduler<Optimizer, NoSchedule>>;
  static Optimizer optimizer(NoOptimizer&&) { return {}; }
  static Schedulers schedulers(NoOptimizer&) {
    return {Scheduler<Optimizer, NoSchedule>(NoSchedule{}, ScheduleOptions{})};
  }
};

}  // namespace loop
}  // namespace fulgurite
