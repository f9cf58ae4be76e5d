#pragma once
// Logs throughput: batches, samples and items a second, over a rolling window.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/profile.hpp>

namespace fulgurite {

/// Options of DeviceStatsMonitor: which statistics are logged, and of what.
struct DeviceStatsMonitorOptions {
  /// Log the machine's own statistics: cpu_percent, cpu_vm_percent, cpu_swap_percent, cpu_process_bytes. Not given:
  /// only if the device has no statistics, as the CPU.
  std::optional<bool> cpu_stats = std::nullopt;
  std::optional<std::set<std::string>> filter_keys = std::nullopt;  ///< log only these, such as {"cpu_vm_percent"}
};

/// Logs memory and load of the device: `DeviceStatsMonitor{}`. Names are such as
/// `DeviceStatsMonitor.on_train_batch_start/allocated_bytes.all.current`, and likewise for batch ends, validation and
/// test. It logs a row at the first and at the last batch of each step for which metrics are logged
/// (log_every_n_steps).
class DeviceStatsMonitor {
 public:
  using Hooks = Implements<hook::on_train_epoch_start, hook::on_train_batch_start, hook::on_train_batch_end,
                           hook::on_train_epoch_end, hook::on_validation_start, hook::on_validation_batch_start,
                           hook::on_validation_batch_end, hook::on_test_batch_start, hook::on_test_batch_end>;
  using Stateless = ByChoice;
  static constexpr bool ignores_tensors = true;
  static constexpr bool needs_logger = true;  ///< it would have no effect without a logger, so the trainer refuses that
  static constexpr std::string_view reads = "device statistics";

  explicit DeviceStatsMonitor(DeviceStatsMonitorOptions options = {}) : options_(std::move(options)) {}
  FULGURITE_NAMED_OPTIONS(DeviceStatsMonitor);

  // An error may have ended an earlier epoch inside of an accumulation window.
  void on_train_epoch_start() { in_window_ = false; }
  void on_train_batch_start(Context& ctx);
  void on_train_batch_end(Context& ctx);
  // A stop or skip_epoch takes the step of an open accumulation window only after its last batch has ended.
  void on_train_epoch_end(Context& ctx);
  void on_validation_start(Context& ctx);
  void on_validation_batch_start(Context& ctx) { evaluated("on_validation_batch_start", ctx); }
  void on_validation_batch_end(Context& ctx) { evaluated("on_validation_batch_end", ctx); }
  void on_test_batch_start(Context& ctx) { evaluated("on_test_batch_start", ctx); }
  void on_test_batch_end(Context& ctx) { evaluated("on_test_batch_end", ctx); }

 private:
  void flushed(Context& ctx, long step);
  void evaluated(char const* place, Context& ctx);

  void log(std::string const& place, Context& ctx);

  DeviceStatsMonitorOptions options_;
  report::HostStats host_{};
  bool in_window_ = false;
};

/// Options of ThroughputMonitor: the number of batches for rates, and the peak performance of the device.
struct ThroughputMonitorOptions {
  int window_size = 100;        ///< batches in the rolling window, at least 2; rates are logged once it is full
  std::string separator = "/";  ///< between the parts of a name, as in "device/batches_per_sec"
  std::optional<double> available_flops =
      std::nullopt;  ///< peak FLOP/s of one device at this precision, for device/mfu
};

/// The number of samples in a batch is ctx.batch_size().
struct InferredBatchSize {};
/// Samples have no length, so no items are counted.
struct NoLength {};

/// Logs throughput: `ThroughputMonitor{}`. Its arguments may be functions of a batch that return the number of its
/// samples, and the number of items (tokens, frames) in a sample:
///
///     ThroughputMonitor{[](Batch const& b) { return b.rows(); }, [](Batch const& b) { return b.columns(); },
///                       {.window_size = 50}}
///
/// Totals so far are `train/time` (seconds), `train/batches`, `train/samples` and `train/lengths`. Rates over the
/// window are `train/device/batches_per_sec`, `samples_per_sec` and `items_per_sec`; with a model's `flops_per_batch`
/// also `flops_per_sec`, and with available_flops `mfu`. The names for validate, test and predict are alike. Training
/// is measured at optimizer steps, excluding the time of validations. Rows are logged together with those of metrics
/// (log_every_n_steps); only then does it wait for the device.
template <class Samples = InferredBatchSize, class Length = NoLength>
class ThroughputMonitor {
 public:
  using Hooks =
      Implements<hook::on_train_start, hook::on_train_batch_end, hook::on_train_epoch_end, hook::on_validation_start,
                 hook::on_validation_batch_end, hook::on_validation_end, hook::on_test_start, hook::on_test_batch_end,
                 hook::on_predict_start, hook::on_predict_batch_end>;
  using Stateless = ByChoice;
  static constexpr bool ignores_tensors = true;
  static constexpr bool needs_logger = true;  ///< it would have no effect without a logger, so the trainer refuses that
  static constexpr std::string_view reads = "batch sizes";

  explicit ThroughputMonitor(Samples batch_size_fn, Length length_fn, ThroughputMonitorOptions options = {})
      : samples_(std::move(batch_size_fn)), length_(std::move(length_fn)), options_(std::move(options)) {
    if (options_.window_size < 2)
      throw Error("fulgurite.callback.throughput_window",
                  "ThroughputMonitor: window_size = " + std::to_string(options_.window_size) +
                      ": a rate needs at least 2 batches");
  }
  explicit ThroughputMonitor(Samples batch_size_fn, ThroughputMonitorOptions options = {})
      : ThroughputMonitor(std::move(batch_size_fn), Length{}, std::move(options)) {}
  explicit ThroughputMonitor(ThroughputMonitorOptions options = {})
      : ThroughputMonitor(Samples{}, Length{}, std::move(options)) {}

  void on_train_start(auto& ctx) {
    start(train, ctx);
    in_window_ = false;
  }
  void on_train_batch_end(auto& batch, auto& ctx) {
    // The time of an accumulation window's batches includes its step.
    in_window_ = ctx.accumulating();
    measure(train, !in_window_ && watch::logs_rows_of(ctx, ctx.logged_steps()), batch, ctx);
  }
  void on_train_epoch_end(auto& ctx) { flushed(ctx, ctx.logged_steps() - 1); }
  void on_validation_start(auto& ctx) {
    if (ctx.sanity_checking()) return;
    if (ctx.stage() == decltype(ctx.stage())::fit) flushed(ctx, ctx.logged_steps());
    start(validate, ctx);
  }
  void on_validation_batch_end(auto& batch, auto& ctx) {
    if (!ctx.sanity_checking()) measure(validate, watch::logs_rows_of(ctx, ctx.batch_idx()), batch, ctx);
  }
  void on_validation_end(auto& ctx) {
    if (ctx.sanity_checking() || ctx.stage() != decltype(ctx.stage())::fit) return;
    auto& training = meters_[train];
    training.began += ctx.seconds_now() - (training.began + training.latest.time);
  }
  void on_test_start(auto& ctx) { start(test, ctx); }
  void on_test_batch_end(auto& batch, auto& ctx) {
    measure(test, watch::logs_rows_of(ctx, ctx.batch_idx()), batch, ctx);
  }
  void on_predict_start(auto& ctx) { start(predict, ctx); }
  void on_predict_batch_end(auto& batch, auto& ctx) {
    measure(predict, watch::logs_rows_of(ctx, ctx.batch_idx()), batch, ctx);
  }

 private:
  enum Kind : std::uint8_t { train, validate, test, predict };
  static constexpr std::array<std::string_view, 4> names{"train", "validate", "test", "predict"};
  static constexpr bool has_length = !std::is_same_v<Length, NoLength>;

  /// Totals since the start of a stage.
  struct Totals {
    double time = 0;
    double batches = 0, samples = 0, lengths = 0, flops = 0;
  };
  struct Meter {
    double began = 0;
    Totals latest{};
    std::deque<Totals> window{};
  };

  void start(Kind kind, auto& ctx) {
    meters_[kind] = {};
    meters_[kind].began = ctx.seconds_now();
  }

  void measure(Kind kind, bool reports, auto& batch, auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    auto& meter = meters_[kind];
    auto& now = meter.latest;
    now.batches += 1;
    if constexpr (std::is_same_v<Samples, InferredBatchSize>) now.samples += static_cast<double>(ctx.batch_size());
    else now.samples += static_cast<double>(samples_(batch));
    if constexpr (has_length) now.lengths += static_cast<double>(length_(batch));
    if constexpr (requires { ctx.model().flops_per_batch; }) now.flops += flops(ctx.model());
    if (reports) Backend::synchronize(ctx.device());
    now.time = ctx.seconds_now() - meter.began;
    meter.window.push_back(now);
    if (meter.window.size() > static_cast<std::size_t>(options_.window_size)) meter.window.pop_front();
    if (reports) log(kind, ctx);
  }

  /// Logs the row of a step that was taken after its batch had ended: a stop or skip_epoch takes the step of an open
  /// accumulation window only then.
  void flushed(auto& ctx, long step) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    if (ctx.accumulating() || !std::exchange(in_window_, false) || !watch::logs_rows_of(ctx, step)) return;
    auto& meter = meters_[train];
    Backend::synchronize(ctx.device());
    meter.window.back().time = meter.latest.time = ctx.seconds_now() - meter.began;
    log(train, ctx);
  }

  static double flops(auto const& model) {
    if constexpr (std::is_invocable_v<decltype(model.flops_per_batch)>)
      return static_cast<double>(model.flops_per_batch());
    else return static_cast<double>(model.flops_per_batch);
  }

  void log(Kind kind, auto& ctx) {
    auto const& meter = meters_[kind];
    auto const& last = meter.latest;
    std::vector<std::pair<std::string, double>> values;
    std::string const stage = std::string(names[kind]) + options_.separator;
    auto const add = [&](std::string const& name, double value) { values.emplace_back(stage + name, value); };
    add("time", last.time);
    add("batches", last.batches);
    add("samples", last.samples);
    if (has_length) add("lengths", last.lengths);
    auto const& first = meter.window.front();
    double const seconds = last.time - first.time;
    if (meter.window.size() == static_cast<std::size_t>(options_.window_size) && seconds > 0) {
      std::string const device = "device" + options_.separator;
      double const batches = last.batches - first.batches;
      double const samples = last.samples - first.samples;
      add(device + "batches_per_sec", batches / seconds);
      add(device + "samples_per_sec", samples / seconds);
      if (has_length) add(device + "items_per_sec", samples / seconds * ((last.lengths - first.lengths) / batches));
      if (last.flops > 0) {
        double const per_second = (last.flops - first.flops) / seconds;
        add(device + "flops_per_sec", per_second);
        if (options_.available_flops) add(device + "mfu", per_second / *options_.available_flops);
      }
    }
    std::vector<Scalar> row;
    for (auto const& [name, value] : values) row.push_back({name, value});
    ctx.log_scalars(std::span<Scalar const>(row));
  }

  [[no_unique_address]] Samples samples_;
  [[no_unique_address]] Length length_;
  ThroughputMonitorOptions options_;
  std::array<Meter, 4> meters_{};
  bool in_window_ = false;  ///< true if the last batch did not end with a step
};

ThroughputMonitor() -> ThroughputMonitor<>;
ThroughputMonitor(ThroughputMonitorOptions) -> ThroughputMonitor<>;
template <class Samples>
ThroughputMonitor(Samples) -> ThroughputMonitor<Samples>;
template <class Samples>
ThroughputMonitor(Samples, ThroughputMonitorOptions) -> ThroughputMonitor<Samples>;

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/throughput_monitor.ipp>
#endif
