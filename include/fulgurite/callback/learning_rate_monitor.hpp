#pragma once
// Sends the learning rates of all optimizers to the loggers.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/scheduler.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

/// Options of GradientNorm.
struct GradientNormOptions {
  double norm_type = 2.0;  ///< the p of the p-norm, above 0; infinity means the largest magnitude
};

/// Logs norms of gradients, as Lightning's track_grad_norm: `GradientNorm{{.norm_type = 2.0}}`. At each logged step,
/// before clipping, it logs one number for each parameter of the optimizer, `grad_2.0_norm/<name>`, and one over all of
/// them, `grad_2.0_norm_total`; the total of a second optimizer is `grad_2.0_norm_total-1`. It reads the device once a
/// logged step.
class GradientNorm {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_before_optimizer_step>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;  ///< after callbacks that change gradients
  static constexpr bool needs_logger = true;
  static constexpr bool reads_whole_model = true;
  static constexpr std::string_view reads = "gradients";

  GradientNorm() : GradientNorm(GradientNormOptions{}) {}
  /// A template, since a std::vector of the standard library's debug mode can be no constant.
  template <class = void>
  constexpr explicit GradientNorm(GradientNormOptions options) : options_(options) {
    check(options.norm_type);
  }
  FULGURITE_NAMED_OPTIONS(GradientNorm);

  void on_train_start() { last_.clear(); }
  void on_before_optimizer_step(auto& optimizer, auto& ctx) {
    long const every = ctx.options().log_every_n_steps;
    long const step = ctx.logged_steps();
    if (every == 0 || (step + 1) % every != 0) return;
    std::size_t const position = position_of(optimizer, ctx);
    // An optimizer may run its closure several times a step. The first gradients are those of the batch.
    if (last_.size() <= position) last_.resize(position + 1, -1);
    if (last_[position] == step) return;
    last_[position] = step;

    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    log(Backend::gradient_norms(ctx.model(), optimizer, options_.norm_type), position, ctx);
  }

  /// Throws [fulgurite.callback.gradient_norm_type] unless a norm of that type exists.
  static constexpr void check(double norm_type) {
    if (!(norm_type > 0))
      throw Error("fulgurite.callback.gradient_norm_type",
                  "GradientNorm: a norm_type is above 0, or infinity: leave the callback out where no norm is wanted");
  }
  /// Replaces names of parameters, with the total last, by Lightning's keys.
  static void name_all(std::vector<std::pair<std::string, double>>& norms, double norm_type);

 private:
  static std::size_t position_of(auto& optimizer, auto& ctx) {
    std::size_t found = 0;
    ctx.each_optimizer([&](std::size_t at, auto& one) {
      if (static_cast<void const*>(&one) == static_cast<void const*>(&optimizer)) found = at;
    });
    return found;
  }

  void log(std::vector<std::pair<std::string, double>> norms, std::size_t position, Context& ctx) const;

  GradientNormOptions options_;
  std::vector<long> last_{};  ///< for each optimizer, the logged step of its last row
};

/// Options of LearningRateMonitor: when rates are logged, which other values of an optimizer, and under which names.
struct LearningRateMonitorOptions {
  /// Log at each logged step, or at each epoch's start. Not given: at those times at which the optimizer's schedules
  /// change the rate; for an optimizer without a schedule, at both.
  IntervalOption logging_interval = std::nullopt;
  bool log_momentum =
      false;  ///< also log `lr-SGD-momentum`, for Adam its first beta; 0 for an optimizer without momentum
  bool log_weight_decay = false;  ///< also log `lr-SGD-weight_decay`
  std::string key_prefix = "";    ///< a prefix for each name
};

/// Logs learning rates: `LearningRateMonitor{}`. The name is `lr-Adam`, or `lr-Adam-1` for a second optimizer of that
/// class. Several groups are `lr-Adam/pg1`, ..., or have their own names. If a schedule has a name, it replaces
/// `lr-Adam`; of several schedules the first one with a name counts. The logged rate is the one that the next step
/// uses.
class LearningRateMonitor {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_train_batch_start, hook::on_train_epoch_start>;
  static constexpr bool ignores_tensors = true;
  static constexpr bool needs_logger = true;  ///< it would have no effect without a logger, so the trainer refuses that
  static constexpr std::string_view reads = "learning rates";

  explicit LearningRateMonitor(LearningRateMonitorOptions options = {});
  FULGURITE_NAMED_OPTIONS(LearningRateMonitor);
  FULGURITE_COPIES(LearningRateMonitor);

  void on_train_start(auto& ctx) {
    begin();
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      auto const warn = [&](char const* lack) {
        ctx.warn_each("fulgurite.callback.learning_rate",
                      "LearningRateMonitor: " + std::string(name_of(optimizer)) + " has no " + lack);
      };
      if (options_.log_momentum && !momentum(optimizer, 0)) warn("momentum, 0 is logged");
      if (options_.log_weight_decay && !weight_decay(optimizer, 0)) warn("weight decay, none is logged");
    });
  }
  void on_train_batch_start(auto& ctx) {
    if (options_.logging_interval == Interval::epoch) return;
    long const every = ctx.options().log_every_n_steps;
    long const step = ctx.logged_steps();
    // The first batch of an accumulation window represents all of them. If it is done again, its row was taken back.
    if (every == 0 || (step + 1) % every != 0 || (last_step_ == step && last_batch_ != ctx.batch_idx())) return;
    last_step_ = step;
    last_batch_ = ctx.batch_idx();
    log(ctx, Interval::step);
  }
  void on_train_epoch_start(auto& ctx) {
    last_batch_ = -1;
    if (options_.logging_interval != Interval::step) log(ctx, Interval::epoch);
  }

  /// Saves how many rates were logged in the run, including earlier programs. After a rollback, later rates are logged
  /// again.
  void state(auto& archive);

  using Series = std::map<std::string, std::vector<double>>;
  /// The rates logged in the last fit, by name; for a resumed fit, those since it resumed.
  Series const& lrs() const { return rates_; }
  std::map<std::string, double> const& last_momentum_values() const { return last_momentum_; }
  std::map<std::string, double> const& last_weight_decay_values() const { return last_weight_decay_; }

 private:
  /// The values read from one group of an optimizer.
  struct Group {
    double rate;
    std::optional<double> momentum, weight_decay;
    std::string name;
  };
  /// The values read from an optimizer's schedules.
  struct Schedules {
    Interval now;
    bool any = false, move_now = false, named = false;
    std::string name;

    void add(std::string_view called, Interval interval);
  };
  struct Row;

  void log(auto& ctx, Interval now) {
    auto const read = [&](Row& row) {
      ctx.each_optimizer([&](std::size_t, auto& optimizer) {
        Schedules schedules{.now = now, .name = "lr-"};
        schedules.name += name_of(optimizer);
        ctx.each_scheduler([&](auto& scheduler) {
          if (static_cast<void const*>(&scheduler.optimizer()) == static_cast<void const*>(&optimizer))
            schedules.add(scheduler.name(), scheduler.interval());
        });
        add(row, schedules, optimizer.groups(), [&](std::size_t group) {
          return Group{.rate = optimizer.lr(group),
                       .momentum = options_.log_momentum ? momentum(optimizer, group) : std::nullopt,
                       .weight_decay = options_.log_weight_decay ? weight_decay(optimizer, group) : std::nullopt,
                       .name = group_name(optimizer, group)};
        });
      });
    };
    log_row(read, [&](std::span<Scalar const> row) { ctx.log_scalars(row); });
  }
  static void log_row(FunctionRef<void(Row&)> read, FunctionRef<void(std::span<Scalar const>)> log);
  void add(Row& row, Schedules& schedules, std::size_t groups, FunctionRef<Group(std::size_t)> read);
  void begin();

  static std::string_view name_of(auto& optimizer) {
    if constexpr (requires { optimizer.name(); }) return optimizer.name();
    else return optimizer.name;
  }
  static std::string group_name(auto& optimizer, std::size_t group) {
    if constexpr (requires { optimizer.group_name(group); }) return std::string(optimizer.group_name(group));
    else return {};
  }
  static std::optional<double> momentum(auto& optimizer, std::size_t group) {
    if constexpr (requires { optimizer.momentum(group); }) return optimizer.momentum(group);
    else return std::nullopt;
  }
  static std::optional<double> weight_decay(auto& optimizer, std::size_t group) {
    if constexpr (requires { optimizer.weight_decay(group); }) return optimizer.weight_decay(group);
    else return std::nullopt;
  }

  LearningRateMonitorOptions options_;
  Series rates_{};
  std::map<std::string, std::size_t>
      earlier_{};  ///< how many rates were logged before the file from which the fit resumed
  std::map<std::string, double> last_momentum_{}, last_weight_decay_{};
  long last_step_ = -1, last_batch_ = -1;  ///< of the last row of a step
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/learning_rate_monitor.ipp>
#endif
