#pragma once
// Sends the learning rates of all optimizers to the loggers.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

struct LearningRateMonitorOptions {
  /// At each logged step, or at each epoch's start. Not given: as the schedule moves; an optimizer without schedule at both.
  std::optional<Interval> logging_interval = std::nullopt;
  std::string key_prefix = "";
};

/// `LearningRateMonitor{}`. Keys: `lr-Adam`; a second optimizer of that class `lr-Adam-1`; several groups `lr-Adam/pg1`, ...; a
/// schedule's own name instead of `lr-Adam`. The rate is the one that the coming step uses.
class LearningRateMonitor {
 public:
  using Hooks = Implements<hook::on_train_batch_start, hook::on_train_epoch_start>;
  using Stateless = ByChoice;
  static constexpr bool needs_logger = true;  ///< without a logger it would do nothing: the trainer refuses that

  explicit LearningRateMonitor(LearningRateMonitorOptions options = {}) : options_(std::move(options)) {}

  void on_train_batch_start(auto& ctx) {
    if (options_.logging_interval == Interval::epoch) return;
    long const every = ctx.options().log_every_n_steps;
    long const step = ctx.logged_steps();
    // The first batch of an accumulation window stands for all of them.
    if (every == 0 || (step + 1) % every != 0 || last_step_ == step) return;
    last_step_ = step;
    log(ctx, Interval::step);
  }
  void on_train_epoch_start(auto& ctx) {
    if (options_.logging_interval != Interval::step) log(ctx, Interval::epoch);
  }

 private:
  struct Rate {
    std::string name;
    double value;
  };

  void log(auto& ctx, Interval now) {
    std::vector<Rate> rates;
    std::map<std::string, int> seen;
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      std::string name = "lr-" + std::string(name_of(optimizer));
      int const earlier = seen[name]++;
      if (earlier != 0) name += "-" + std::to_string(earlier);
      std::optional<Interval> moves;
      ctx.each_scheduler([&](auto& scheduler) {
        if (static_cast<void const*>(&scheduler.optimizer()) != static_cast<void const*>(&optimizer)) return;
        moves = scheduler.interval();
        if (!scheduler.name().empty()) name = scheduler.name();
      });
      if (!options_.logging_interval && moves && *moves != now) return;
      std::size_t const groups = optimizer.groups();
      for (std::size_t g = 0; g != groups; ++g)
        rates.push_back({options_.key_prefix + name + (groups == 1 ? "" : "/pg" + std::to_string(g + 1)), optimizer.lr(g)});
    });
    std::vector<Scalar> row;
    for (auto const& rate : rates) row.push_back({rate.name, rate.value});
    if (!row.empty()) ctx.log_scalars(std::span<Scalar const>(row));
  }

  static std::string_view name_of(auto const& optimizer) {
    if constexpr (requires { optimizer.name(); }) return optimizer.name();
    else return optimizer.name;
  }

  LearningRateMonitorOptions options_;
  long last_step_ = -1;
};

}  // namespace fulgurite
