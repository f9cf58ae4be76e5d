#pragma once
// Lowers the rates when a metric has stopped getting better. The arithmetic is that of torch's ReduceLROnPlateau.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <fulgurite/core/metric_text.hpp>
#include <fulgurite/core/mode.hpp>
#include <fulgurite/fwd.hpp>
#include <fulgurite/schedule/schedule.hpp>

namespace fulgurite::schedule {

/// Whether the threshold of an improvement is a part of the best value, or a difference from it.
enum class ThresholdMode : std::uint8_t { rel, abs };

/// What counts as an improvement, how long the schedule waits without one, and how it lowers the rates then.
struct PlateauOptions {
  ModeOption mode = Mode::min;
  double factor = 0.1;      ///< the rates are multiplied by it; below 1
  int patience = 10;        ///< so many values in a row may bring no improvement; the next one lowers the rates
  double threshold = 1e-4;  ///< an improvement is larger than this
  ThresholdMode threshold_mode = ThresholdMode::rel;  ///< a part of the best value, or a difference from it
  int cooldown = 0;                                   ///< values after a reduction that are not counted as bad
  double min_lr = 0;                                  ///< no rate is lowered below it
  double eps = 1e-8;                                  ///< a rate that would fall by less than this stays as it is
  bool strict = true;  ///< a metric that nobody has logged is an Error; false: that value is skipped
};

/// `scheduled(optimizer, schedule::ReduceOnPlateau{Net::val_loss, {.patience = 3}})`: lowers the learning rates when a
/// metric has stopped getting better. It looks at the metric once an epoch, after all `on_train_epoch_end` hooks, or
/// with `.interval = Interval::step` after each validation. In manual optimization you call `scheduler.step(value)`. It
/// multiplies the rates as they are at that moment, and where the optimizer has other schedules, these go on from that.
template <class M>
  requires requires { M::name(); }
class ReduceOnPlateau {
 public:
  using Watches = MetricTypes<M>;
  static constexpr bool sets_rates = true;

  /// Throws fulgurite.schedule.constants for options that make no sense.
  explicit ReduceOnPlateau(M metric, PlateauOptions options = {}) : metric_(metric), options_(options) {
    constexpr char const* name = "ReduceOnPlateau";
    if (!(options.factor >= 0 && options.factor < 1))
      refuse(name, "factor", options.factor, "a reduction multiplies by less than 1, not negative");
    if (options.patience < 0)
      refuse(name, "patience", options.patience, "it bears 0 or more values without improvement");
    if (!is_factor(options.threshold))
      refuse(name, "threshold", options.threshold, "a threshold is finite and not negative");
    if (options.cooldown < 0) refuse(name, "cooldown", options.cooldown, "it rests for 0 or more values");
    if (!is_factor(options.min_lr)) refuse(name, "min_lr", options.min_lr, "a rate is finite and not negative");
    if (!is_factor(options.eps)) refuse(name, "eps", options.eps, "a difference is finite and not negative");
  }

  M metric() const { return metric_; }
  bool strict() const { return options_.strict; }

  /// Takes one value of the metric, and lowers the optimizer's rates where it was one too many without improvement. NaN
  /// is no improvement.
  void observe(double value, auto& optimizer) {
    if (better(value)) {
      best_ = value;
      bad_ = 0;
    } else {
      ++bad_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      bad_ = 0;
    }
    if (bad_ <= options_.patience) return;
    for (std::size_t group = 0; group != optimizer.groups(); ++group) {
      double const before = optimizer.lr(group), after = std::max(before * options_.factor, options_.min_lr);
      if (before - after > options_.eps) optimizer.set_lr(group, after);
    }
    cooldown_ = options_.cooldown;
    bad_ = 0;
  }

  double best() const { return best_; }
  int num_bad_epochs() const { return bad_; }  ///< values since the last improvement, reduction or rest

  void state(auto& archive) {
    archive("best", best_)("num_bad_epochs", bad_)("cooldown_counter", cooldown_);
    archive.option("mode", std::string(options_.mode == Mode::min ? "min" : "max")).option("factor", options_.factor);
    archive.option("patience", options_.patience).option("threshold", options_.threshold);
    archive.option("threshold_mode", std::string(options_.threshold_mode == ThresholdMode::rel ? "rel" : "abs"));
    archive.option("cooldown", options_.cooldown).option("min_lr", options_.min_lr).option("eps", options_.eps);
    archive.option("strict", options_.strict);
  }

 private:
  bool better(double value) const {
    bool const relative = options_.threshold_mode == ThresholdMode::rel;
    double const by = options_.threshold;
    if (options_.mode == Mode::min) return value < (relative ? best_ * (1.0 - by) : best_ - by);
    return value > (relative ? best_ * (by + 1.0) : best_ + by);
  }
  double worst() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return options_.mode == Mode::min ? infinity : -infinity;
  }

  [[no_unique_address]] M metric_;
  PlateauOptions options_;
  double best_ = worst();
  int bad_ = 0;
  int cooldown_ = 0;
};

/// Refused by the trainer: a metric is a constant, not a text.
template <std::convertible_to<std::string_view> Text>
ReduceOnPlateau(Text const&, PlateauOptions = {}) -> ReduceOnPlateau<MetricText>;

}  // namespace fulgurite::schedule
