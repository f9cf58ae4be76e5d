#pragma once
// What has been logged of one metric: the entry of this step, and the running figures of this epoch.

#include <cstdint>
#include <limits>
#include <optional>

#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

/// Running figures of one metric over an epoch, on the host, in double precision.
struct Figures {
  double last = 0;
  double sum = 0;
  double weighted = 0;
  double weight = 0;
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
  long count = 0;

  constexpr void add(double value, double by) {
    last = value;
    sum += value;
    weighted += value * by;
    weight += by;
    least = value < least ? value : least;
    greatest = value > greatest ? value : greatest;
    ++count;
  }

  /// Adds what another loader has seen.
  constexpr void merge(Figures const& other) {
    if (other.count == 0) return;
    last = other.last;
    sum += other.sum;
    weighted += other.weighted;
    weight += other.weight;
    least = other.least < least ? other.least : least;
    greatest = other.greatest > greatest ? other.greatest : greatest;
    count += other.count;
  }

  void state(auto& archive) {
    archive("last", last)("sum", sum)("weighted", weighted)("weight", weight)("least", least)("greatest",
                                                                                              greatest)("count", count);
  }

  /// The epoch's value; nothing was logged: nullopt. A NaN stays visible in every reduction.
  constexpr std::optional<double> reduced(Reduce by) const {
    if (count == 0) return std::nullopt;
    if (sum != sum) return sum;
    switch (by) {
    case Reduce::sum: return sum;
    case Reduce::min: return least;
    case Reduce::max: return greatest;
    case Reduce::mean: break;
    }
    return weighted / weight;
  }
};

/// Where a value was logged, which decides whether it is reported per step or per epoch.
enum class Origin : std::uint8_t { train_step, train_epoch, evaluation };

/// The slot a log call stores into: no look-up, no allocation, no host read.
template <class Value>
struct Cell {
  enum class Pending : std::uint8_t { nothing, tensor, number };

  Value tensor{};
  double number = 0;
  double weight = 0;
  Pending pending = Pending::nothing;
  Origin origin = Origin::train_step;
  bool in_step_row = false;  ///< logged since the last row of step values
  bool shared = false;       ///< `epoch` holds what all ranks have logged
  long waiting = 0;          ///< entries whose reading would wait for a device
  Figures epoch;
  bool again = false;  ///< logged more than once in this step ...
  Figures before;      ///< ... and the epoch as it was until then

  /// Of a cell whose entries are all read and settled.
  void state(auto& archive) {
    archive("origin", origin)("in_step_row", in_step_row)("weight", weight).child("epoch", epoch);
  }

  void restart() {
    epoch = {};
    again = false;
    pending = Pending::nothing;
    in_step_row = false;
    shared = false;
    waiting = 0;
    tensor = Value{};
  }
};

/// Whether a metric's value is reported per step and per epoch, from its declaration and the place where it was logged.
template <class M>
constexpr bool per_step(M const& metric, Origin origin) {
  return metric.on_step == Report::by_hook ? origin == Origin::train_step : metric.on_step == Report::yes;
}
/// The same of the value of an epoch.
template <class M>
constexpr bool per_epoch(M const& metric, Origin origin) {
  return metric.on_epoch == Report::by_hook ? origin != Origin::train_step : metric.on_epoch == Report::yes;
}

}  // namespace fulgurite
