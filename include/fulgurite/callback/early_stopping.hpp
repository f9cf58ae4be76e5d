#pragma once
// Ends a fit when a metric has stopped improving; docs/semantics.md, Stop rules, gives the order of the checks.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

/// Options of EarlyStopping: what counts as an improvement, how long to wait for one, and what ends a fit at once.
struct EarlyStoppingOptions {
  MonitorOption monitor = {};   ///< refused: the metric is the first argument, EarlyStopping{Net::val_loss, {...}}
  double min_delta = 0;         ///< a change must be larger than this to count as an improvement
  int patience = 3;             ///< checks without improvement before the stop; 0 acts as 1
  ModeOption mode = Mode::min;  ///< the direction of improvement; for an accuracy: Mode::max
  bool strict = true;           ///< a metric that was not logged is an Error; false: the check is skipped
  bool check_finite = true;     ///< NaN or infinity stops the fit
  std::optional<double> stopping_threshold = std::nullopt;  ///< a value better than this is good enough: the fit stops
  std::optional<double> divergence_threshold = std::nullopt;  ///< a value worse than this is hopeless: the fit stops
  std::optional<bool> check_on_train_epoch_end =
      std::nullopt;      ///< not given: true if validation runs once an epoch, or never
  bool verbose = false;  ///< print improvements and the reason of the stop to stderr
};

/// Why EarlyStopping ended the fit; the numbers are Lightning's.
enum class StopReason : std::uint8_t { not_stopped, stopping_threshold, divergence, patience, non_finite };

namespace early_stopping {

/// The part of EarlyStopping that does not depend on the type of its metric.
class Stopper {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_train_epoch_end, hook::on_validation_end>;
  static constexpr Order order = Order::monitor;
  static constexpr bool inert_in_dev_run = true;
  static constexpr std::string_view writes = "the end of training";

  Stopper(WatchedMetric metric, EarlyStoppingOptions options);
  FULGURITE_COPIES(Stopper);

  void on_train_start(Context& ctx);
  void on_train_epoch_end(Context& ctx);
  void on_validation_end(Context& ctx);

  /// Clears the best value and the count of checks without improvement. Call it before another fit after this callback
  /// has ended one: `trainer.callback<EarlyStopping>().reset()`.
  void reset();

  StopReason reason() const { return reason_; }
  std::string const& message() const { return message_; }      ///< the reason of the stop, as a sentence
  std::optional<int> stopped_epoch() const { return epoch_; }  ///< index of the epoch in which it stopped
  int wait_count() const { return wait_; }                     ///< checks since the last improvement
  double best_score() const;

  std::string state_key() const;
  void state(auto& archive);

 private:
  std::string watched() const;
  void check(Context& ctx);

  // The order is Lightning's: a value that is not finite is never compared, and thresholds come before patience.
  bool judge(double value, Context& ctx);

  bool because(StopReason reason, double value, std::string const& what);

  WatchedMetric metric_;
  EarlyStoppingOptions options_;
  int wait_ = 0;
  std::optional<double> best_ = std::nullopt;
  std::optional<int> epoch_ = std::nullopt;
  StopReason reason_ = StopReason::not_stopped;
  std::string message_{};
  long logged_ = 0;  ///< how often the metric had been logged (WatchedValue::logged) at the last check
};

}  // namespace early_stopping

/// Ends a fit when a metric has stopped improving: `EarlyStopping{Net::val_loss, {.patience = 3}}`, or
/// `EarlyStopping{Net::val_accuracy, {.mode = Mode::max}}`. It checks the metric's mean over the epoch once an epoch;
/// with `Net::loss.last()` it checks the last value. The fit stops only when min_epochs and min_steps are reached as
/// well; until then the checks continue, and the result of the latest check counts. A value that was already checked is
/// skipped: the metric must have been logged again.
template <Watchable M>
class EarlyStopping : public early_stopping::Stopper {
 public:
  using Watches = MetricTypes<M>;

  explicit EarlyStopping(M metric, EarlyStoppingOptions options = {}) : Stopper(WatchedMetric(metric), options) {}
  /// Refused at compile time: an option without its name.
  template <Unnamed T>
  EarlyStopping(M metric, T const& given) : EarlyStopping(metric) {
    if constexpr (!std::same_as<M, MetricText>) refuse_unnamed(given);  // else the trainer refuses the text
  }
};

FULGURITE_REFUSES_WRONG_METRIC(EarlyStopping);

// Ends a fit in which the loss has spiked, and lists the batches to leave out of the next fit.

/// Options of SpikeDetection: when a value is too far from the running mean, and where the batches are listed.
struct SpikeDetectionOptions {
  MonitorOption monitor = {};   ///< refused: the metric is the first argument, SpikeDetection{Net::loss, {...}}
  ModeOption mode = Mode::min;  ///< the direction of improvement: a spike goes the other way
  int window = 10;              ///< batches in the running mean
  long warmup = 1;              ///< batches of the run before the first check
  std::optional<double> atol = std::nullopt;                         ///< a spike differs from the mean by at least this
  std::optional<double> rtol = 2.0;                                  ///< and by at least this multiple of the mean
  std::filesystem::path exclude_batches_path = "skip_batches.json";  ///< below default_root_dir, unless absolute
  bool finite_only = true;  ///< NaN and infinity are spikes; false: they are skipped
};

/// Ends a fit on a spike of the loss: `SpikeDetection{Net::loss}`. After each training batch it checks the value that
/// was logged in that batch. A value that is worse than the one before and too far from the mean of the last ones is a
/// spike. The indices of that batch and of the one before, which may have spoilt the weights, are added to a JSON list,
/// and the Error [fulgurite.callback.spike] ends the fit. The value is read on the host, so each batch waits for the
/// device.
template <Watchable M>
class SpikeDetection {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_train_batch_end>;
  using Watches = MetricTypes<M>;
  static constexpr bool inert_in_dev_run = true;
  static constexpr std::string_view writes = "the end of training";

  explicit SpikeDetection(M metric, SpikeDetectionOptions options = {})
      : metric_(metric), options_(std::move(options)) {
    auto const refuse = [](std::string const& why) {
      throw Error("fulgurite.callback.spike_options", "SpikeDetection on '" + std::string(M::name()) + "': " + why);
    };
    if (options_.window < 1) refuse("a window has at least 1 batch");
    if (options_.warmup < 0) refuse("warmup counts batches from 0");
    for (auto const& tolerance : {options_.atol, options_.rtol})
      if (tolerance && !(*tolerance >= 0)) refuse("atol and rtol are not negative");
  }
  /// Refused at compile time: an option without its name.
  SpikeDetection(M metric, Unnamed auto const& given) : SpikeDetection(metric) { refuse_unnamed(given); }

  /// After a failed fit, the metric's count is that of its last complete epoch again.
  void on_train_start(auto& ctx) {
    if (!ctx.dev_run()) logged_ = std::min(logged_, ctx.watched_value(Last<typename M::metric>{}).logged);
  }
  void on_train_batch_end(auto& ctx) {
    if (ctx.dev_run()) return;
    auto const now = ctx.watched_value(Last<typename M::metric>{});
    if (!now.is_newer_than(logged_)) return;  // nothing was logged in this batch
    logged_ = now.logged;
    auto const& value = now.value;
    bool const looking = seen_++ >= options_.warmup && (!recent_.empty() || !std::isfinite(*value));
    if (looking && spikes(*value)) stop(*value, ctx);
    if (!std::isfinite(*value)) return;
    recent_.push_back(*value);
    shorten();
  }

  std::vector<long> const& bad_batches() const { return bad_; }
  /// The mean of the last values that were not spikes; nullopt before the first one.
  std::optional<double> running_mean() const {
    if (recent_.empty()) return std::nullopt;
    double sum = 0;
    for (double const value : recent_) sum += value;
    return sum / static_cast<double>(recent_.size());
  }

  std::string state_key() const { return "SpikeDetection{" + WatchedMetric(metric_).written() + "}"; }
  void state(auto& archive) {
    std::vector<double> recent(recent_.begin(), recent_.end());
    archive("seen", seen_)("logged", logged_)("recent", recent)("bad_batches", bad_);
    archive.option("mode", std::string(options_.mode == Mode::min ? "min" : "max")).option("window", options_.window);
    archive.option("warmup", options_.warmup).option("atol", options_.atol).option("rtol", options_.rtol);
    archive.option("exclude_batches_path", options_.exclude_batches_path).option("finite_only", options_.finite_only);
    if (archive.loading) {
      recent_.assign(recent.begin(), recent.end());
      shorten();
    }
  }

 private:
  void shorten() {
    while (recent_.size() > static_cast<std::size_t>(options_.window)) recent_.pop_front();
  }
  bool spikes(double value) const {
    if (!std::isfinite(value)) return options_.finite_only;
    if (!watch::better(options_.mode, recent_.back(), value)) return false;  // not worse than the last value
    double const mean = *running_mean();
    double const away = std::abs(value - mean);
    return (!options_.atol || away >= *options_.atol) && (!options_.rtol || away >= *options_.rtol * std::abs(mean));
  }

  [[noreturn]] void stop(double value, auto& ctx) {
    long const batch = ctx.batch_idx();
    if (batch > 0) bad_.push_back(batch - 1);
    bad_.push_back(batch);
    auto const file = ctx.options().default_root_dir / options_.exclude_batches_path;
    if (ctx.rank() == 0) write_durably(file, "[" + listed(bad_) + "]\n");
    throw Error("fulgurite.callback.spike",
                "SpikeDetection: " + WatchedMetric(metric_).written() + " = " + exact_number(value) + " in batch " +
                    std::to_string(batch) + " of epoch " + std::to_string(ctx.current_epoch()) +
                    (recent_.empty() ? "" : ", after a mean of " + exact_number(*running_mean())) +
                    ": leave out the batches in " + file.string() + ", or raise atol or rtol");
  }

  [[no_unique_address]] M metric_;
  SpikeDetectionOptions options_;
  std::deque<double> recent_{};
  std::vector<long> bad_{};
  long seen_ = 0;
  long logged_ = 0;  ///< how often the metric had been logged (WatchedValue::logged) at the last value
};

FULGURITE_REFUSES_WRONG_METRIC(SpikeDetection);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/early_stopping.ipp>
#endif
