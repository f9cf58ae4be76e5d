#pragma once
// Ends a fit when a metric has stopped getting better; docs/semantics.md, Stop rules, has the order of its questions.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/flow.hpp>
#include <fulgurite/core/metric_text.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite {

/// What counts as better, how long to wait for something better, and what ends a fit at once.
struct EarlyStoppingOptions {
  MonitorOption monitor = {};  ///< refused: the metric is the first argument, EarlyStopping{Net::val_loss, {...}}
  double min_delta = 0;        ///< a change counts as better only when it is larger than this
  int patience = 3;            ///< checks without improvement until the stop; 0 acts as 1
  ModeOption mode = Mode::min;
  bool strict = true;        ///< a metric that nobody has logged is an Error; false: that check is skipped
  bool check_finite = true;  ///< NaN or infinity stops
  std::optional<double> stopping_threshold =
      std::nullopt;  ///< a value better than this is good enough and stops the fit
  std::optional<double> divergence_threshold = std::nullopt;  ///< a value worse than this is hopeless and stops the fit
  std::optional<bool> check_on_train_epoch_end =
      std::nullopt;      ///< not given: where validation runs once an epoch, or never
  bool verbose = false;  ///< write to stderr what improves, and why the fit stops
};

/// Why EarlyStopping ended the fit; the numbers are Lightning's.
enum class StopReason : std::uint8_t { not_stopped, stopping_threshold, divergence, patience, non_finite };

/// `EarlyStopping{Net::val_loss, {.patience = 3}}` or `EarlyStopping{Net::val_accuracy, {.mode = Mode::max}}`. It looks
/// once an epoch at the metric's mean over the epoch, or with `Net::loss.last()` at its last value. The fit stops when
/// min_epochs and min_steps are reached as well; until then it looks on, and what it saw last counts. A value that it
/// has seen before is no check: the metric has to be logged again.
template <Watchable M>
class EarlyStopping {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_train_epoch_end, hook::on_validation_end>;
  using Watches = MetricTypes<M>;
  static constexpr Order order = Order::monitor;
  static constexpr bool inert_in_dev_run = true;
  static constexpr std::string_view writes = "the end of training";

  explicit EarlyStopping(M metric, EarlyStoppingOptions options = {}) : metric_(metric), options_(options) {
    if (options.patience < 0 || !(options.min_delta >= 0))
      throw Error("fulgurite.callback.early_stopping_options",
                  "EarlyStopping on '" + std::string(M::name()) + "': patience and min_delta are not negative");
  }

  void on_train_start(auto& ctx) {
    if (!watch::in_fit(ctx)) return;
    // After a fit that failed, the count is again that of its last complete epoch.
    logged_ = std::min(logged_, ctx.watched_value(metric_).logged);
    if (reason_ != StopReason::patience || wait_ < options_.patience || ctx.stop_requested()) return;
    ctx.warn_each(
        "fulgurite.callback.patience_spent",
        "EarlyStopping on '" + watched() + "' has ended an earlier fit, after " + std::to_string(wait_) +
            " checks without improvement on " + report::exact(best_score()) +
            ", and keeps these counts: this fit ends at its first check unless that improves. Call reset() of "
            "the callback before fit to begin to count again, or raise patience");
  }
  void on_train_epoch_end(auto& ctx) {
    if (watch::at_train_epoch_end(options_.check_on_train_epoch_end, ctx)) check(ctx);
  }
  void on_validation_end(auto& ctx) {
    if (!watch::at_train_epoch_end(options_.check_on_train_epoch_end, ctx)) check(ctx);
  }

  /// Forgets the best value and the checks without improvement, as if nothing had been seen. Call it before a fit that
  /// follows one that this callback has ended: `trainer.callback<EarlyStopping>().reset()`.
  void reset() {
    wait_ = 0;
    best_.reset();
    epoch_.reset();
    reason_ = StopReason::not_stopped;
    message_.clear();
  }

  StopReason reason() const { return reason_; }
  std::string const& message() const { return message_; }      ///< why it stopped, in a sentence
  std::optional<int> stopped_epoch() const { return epoch_; }  ///< index of the epoch in which it stopped
  int wait_count() const { return wait_; }                     ///< checks since the last improvement
  double best_score() const { return best_.value_or(watch::worst(options_.mode)); }

  std::string state_key() const {
    return "EarlyStopping{" + watch::written(metric_) + (options_.mode == Mode::min ? ", min}" : ", max}");
  }
  void state(auto& archive) {
    archive("wait_count", wait_)("stopped_epoch", epoch_)("best_score", best_);
    archive("reason", reason_)("message", message_)("logged", logged_);
    archive.option("patience", options_.patience).option("min_delta", options_.min_delta);
    archive.option("strict", options_.strict).option("check_finite", options_.check_finite);
    archive.option("stopping_threshold", options_.stopping_threshold);
    archive.option("divergence_threshold", options_.divergence_threshold);
    archive.option("check_on_train_epoch_end", options_.check_on_train_epoch_end);
  }

 private:
  std::string watched() const {
    if constexpr (requires { metric_.loader; })
      return std::string(M::name()) + "' of the loader '" + std::string(metric_.loader);
    else return std::string(M::name());
  }
  void check(auto& ctx) {
    if (!watch::in_fit(ctx)) return;
    auto const now = ctx.watched_value(metric_);
    if (!now.value) {
      if (!options_.strict) return;
      throw Error("fulgurite.callback.early_stopping_metric",
                  "EarlyStopping watches '" + watched() + "', which nobody has logged by the end of epoch " +
                      std::to_string(ctx.current_epoch()) + ": log it, or say {.strict = false}");
    }
    if (!now.is_newer_than(logged_)) return;
    logged_ = now.logged;
    reason_ = StopReason::not_stopped;
    message_.clear();
    epoch_.reset();
    bool const stop = judge(*now.value, ctx);
    if (stop) {
      epoch_ = ctx.current_epoch();
      if (options_.verbose && ctx.rank() == 0) tell(stderr, message_ + "\n");
    }
    ctx.set_stop_request(state_key(), stop, message_);
  }

  // The order is Lightning's: a value that is not finite is never compared, and thresholds come before patience.
  bool judge(double value, auto& ctx) {
    Mode const mode = options_.mode;
    if (options_.check_finite && !std::isfinite(value)) return because(StopReason::non_finite, value, "is not finite");
    if (options_.stopping_threshold && watch::better(mode, value, *options_.stopping_threshold))
      return because(StopReason::stopping_threshold, value,
                     "is better than the threshold " + report::exact(*options_.stopping_threshold));
    if (options_.divergence_threshold && watch::better(mode, *options_.divergence_threshold, value))
      return because(StopReason::divergence, value,
                     "is worse than the threshold " + report::exact(*options_.divergence_threshold));
    double const counted = mode == Mode::min ? value + options_.min_delta : value - options_.min_delta;
    if (watch::better(mode, counted, best_score())) {
      if (options_.verbose && ctx.rank() == 0)
        tell(stderr, "EarlyStopping: " + watch::written(metric_) + " = " + report::exact(value) +
                         (best_ ? " improves on " + report::exact(*best_) : " is the first value") + "\n");
      best_ = value;
      wait_ = 0;
      // A ModelCheckpoint that watches a metric knows more: the file with that value.
      if (auto& outcome = ctx.outcome(); outcome.best_file.empty()) {
        outcome.best_metric = watch::written(metric_);
        outcome.best_metric_name = M::name();
        outcome.best_value = value;
        outcome.best_epoch = ctx.current_epoch();
      }
      return false;
    }
    return ++wait_ >= options_.patience &&
           because(StopReason::patience, value,
                   "has not improved on " + report::exact(best_score()) + " for " + std::to_string(wait_) + " checks");
  }

  bool because(StopReason reason, double value, std::string const& what) {
    reason_ = reason;
    message_ = "EarlyStopping: " + watch::written(metric_) + " = " + report::exact(value) + " " + what;
    return true;
  }

  [[no_unique_address]] M metric_;
  EarlyStoppingOptions options_;
  int wait_ = 0;
  std::optional<double> best_ = std::nullopt;
  std::optional<int> epoch_ = std::nullopt;
  StopReason reason_ = StopReason::not_stopped;
  std::string message_{};
  long logged_ = 0;  ///< WatchedValue's, at the last check
};

/// Refused by the trainer: it watches a metric.
template <>
class EarlyStopping<MetricLeftOut> {
 public:
  static constexpr bool lacks_metric = true;
  explicit EarlyStopping(EarlyStoppingOptions = {}) {}
};
EarlyStopping(EarlyStoppingOptions = {}) -> EarlyStopping<MetricLeftOut>;

/// Refused by the trainer: a metric is a constant, not a text.
template <std::convertible_to<std::string_view> Text>
EarlyStopping(Text const&, EarlyStoppingOptions = {}) -> EarlyStopping<MetricText>;

}  // namespace fulgurite
