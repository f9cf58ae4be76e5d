#pragma once
// The board: one cell for each declared metric, and a meter if the metric has a definition. Steps store into it, and
// the loop folds it after each step.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/metric/meter.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

// The logged values of one metric: the entry of this step, and the running totals of this epoch.

/// Running totals of one metric over an epoch, on the host, in double precision.
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
    bool const is_nan = value != value;  // both extremes keep it from then on
    least = value < least || is_nan ? value : least;
    greatest = value > greatest || is_nan ? value : greatest;
    ++count;
  }

  /// Adds the totals of another loader.
  constexpr void merge(Figures const& other) {
    if (other.count == 0) return;
    last = other.last;
    sum += other.sum;
    weighted += other.weighted;
    weight += other.weight;
    least = other.least < least || other.least != other.least ? other.least : least;
    greatest = other.greatest > greatest || other.greatest != other.greatest ? other.greatest : greatest;
    count += other.count;
  }

  void state(auto& archive);

  /// The epoch's value; nullopt if nothing was logged. A NaN stays visible in every reduction.
  constexpr std::optional<double> reduced(Reduce by) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (count == 0) return std::nullopt;
    bool const opposed = least == -infinity && greatest == infinity;  // then the sum is a NaN without one among them
    if (sum != sum && !opposed) return sum;
    switch (by) {
    case Reduce::sum: return sum;
    case Reduce::min: return least;
    case Reduce::max: return greatest;
    case Reduce::mean: break;
    }
    return weighted / weight;
  }
};

/// Where a value was logged, which decides if it is reported per step or per epoch.
enum class Origin : std::uint8_t { train_step, train_epoch, evaluation };

/// The logged values of one metric in an open epoch or evaluation.
struct Cell {
  double weight = 0;  ///< the weight of the last entry
  Origin origin = Origin::train_step;
  bool in_step_row = false;  ///< true if logged since the last row of step values
  bool of_others = false;    ///< true if only other ranks have a value for the row of the current step
  bool shared = false;       ///< true if `epoch` holds the values of all ranks
  bool again = false;        ///< true if logged more than once in this step
  long waiting = 0;          ///< the number of entries that cannot be read without waiting for a device
  Figures epoch;
  Figures before;  ///< if `again`: the totals before this step

  Cell();

  /// Saves or loads. All entries must be read and settled.
  void state(auto& archive);

  void restart();
};

/// True if the metric's value is reported per step, from its declaration and the place where it was logged.
constexpr bool per_step(DeclaredMetric const& metric, Origin origin) {
  return metric.on_step == Report::by_hook ? origin == Origin::train_step : metric.on_step == Report::yes;
}
/// True if the metric's value is reported per epoch.
constexpr bool per_epoch(DeclaredMetric const& metric, Origin origin) {
  return metric.on_epoch == Report::by_hook ? origin != Origin::train_step : metric.on_epoch == Report::yes;
}

/// `loss`, or `loss_step` and `loss_epoch` where a metric is reported both ways.
std::string reported_name(DeclaredMetric const& metric, Origin origin, bool epoch);

namespace metric {

// The meters of the metrics that have a definition, and the updates of the current step, which are added when it is
// over.

/// Part of a Board. Empty if no metric has a definition.
template <class List, class Backend, bool Any = DeclaredMeters<List, Backend>::any>
class Counts {
 public:
  static constexpr bool any = false, any_several = false;
};

template <class List, class Backend>
class Counts<List, Backend, true> : public DeclaredMeters<List, Backend> {
  using Meters = DeclaredMeters<List, Backend>;

 public:
  using Tally = typename Backend::Tally;

  /// Keeps an update of the current step until `fold`. A recorded step posts its updates again on each replay.
  void take(std::size_t metric, Tally more) { taken_.emplace_back(metric, std::move(more)); }
  /// Adds the updates, when the step is over.
  void fold() {
    for (auto const& [metric, more] : taken_) {
      auto const add = [&, wanted = metric](std::size_t at, auto& meter) {
        if (at == wanted) meter.add(more);
      };
      this->each(add);
    }
    taken_.clear();
  }
  /// Drops the updates, when a step is evaluated again.
  void discard_step() { taken_.clear(); }
  /// Clears all counts.
  void restart() {
    taken_.clear();
    Meters::restart();
  }
  /// Calls f(position of the metric, update) for each update of the current step.
  void each_taken(auto&& f) const {
    for (auto const& [metric, more] : taken_) f(metric, more);
  }

  /// Adds the counts of another rank or loader.
  void merge(Counts& other) {
    this->each([&](auto at, auto& meter) { meter.merge(other.template get<at>()); });
  }
  /// Saves or loads one of the metrics, in its state after `fold`.
  void state(std::size_t metric, auto& archive) {
    this->each([&](std::size_t at, auto& meter) {
      if (at != metric || lacks(archive, "counted")) return;
      archive.child("counted", meter);
    });
  }

 private:
  std::vector<std::pair<std::size_t, Tally>> taken_{};
};

}  // namespace metric

/// One cell of a logger's row. The name must live as long as the program, or as long as the call.
struct Scalar {
  std::string_view name;
  double value;
};

/// The part of a board, except its cells, that does not depend on the list of metrics: one class for each tensor
/// library. `Backend` supplies the value type and reads it: `reading_waits`, `read`, `read_all`.
template <class Backend>
class BoardEntries {
 public:
  using Value = typename Backend::Value;
  static constexpr std::size_t most_waiting = 4096;  ///< limit of entries that wait for one reading of a device

  /// One logged value, or one update of a meter. A recorded step posts it again on each replay.
  struct Entry {
    std::size_t metric;
    Value value;
    double weight;
    Origin origin;
  };

  BoardEntries() = default;
  FULGURITE_COPIES(BoardEntries);

 protected:
  using Cells = std::span<Cell>;
  /// The target of a log call: no look-up, no allocation, no read on the host.
  struct Slot {
    enum class Holds : std::uint8_t { nothing, tensor, number };
    Value tensor{};
    double number = 0;
    Holds holds = Holds::nothing;
  };
  struct Waiting {
    std::size_t metric;
    Value value;
    double weight;
  };

  /// Reads all waiting entries, and `also`. Returns true if the latter are all finite.
  bool read_waiting(Cells cells, std::span<Value const> also);
  void discard_step(Cells cells, std::span<Slot> slots);
  void restart(Cells cells, std::span<Slot> slots);
  void clear(Cells cells, std::span<Slot> slots);
  void reserve(std::size_t metrics, std::size_t steps);
  /// Saves or loads each cell under the name of its metric.
  void state(Cells cells, std::span<std::string_view const> names, auto& archive);

  /// Called when the metric is logged for a second time in this step: keeps the totals of before.
  void keep_earlier(Cell& cell, Slot const& slot, std::size_t metric);
  /// Moves the value of a slot to the entries that wait for `read_waiting`.
  void wait(Cell& cell, Slot& slot, std::size_t metric);

  std::vector<Waiting> waiting_{};
  std::vector<Value> values_{};
  std::vector<double> numbers_{};
  std::vector<Entry>
      earlier_{};           ///< tensors logged in this step and already settled, since their metric was logged again
  std::size_t folded_ = 0;  ///< the number of waiting entries that belong to finished steps
  bool dirty_ = false;
};

template <class Backend>
BoardEntries<Backend>::BoardEntries(BoardEntries const&) = default;
template <class Backend>
BoardEntries<Backend>& BoardEntries<Backend>::operator=(BoardEntries const&) = default;
template <class Backend>
BoardEntries<Backend>::BoardEntries(BoardEntries&&) noexcept = default;
template <class Backend>
BoardEntries<Backend>& BoardEntries<Backend>::operator=(BoardEntries&&) noexcept = default;
template <class Backend>
BoardEntries<Backend>::~BoardEntries() = default;

template <class Backend>
bool BoardEntries<Backend>::read_waiting(Cells cells, std::span<Value const> also) {
  if (waiting_.empty() && also.empty()) return true;
  values_.clear();
  for (auto& entry : waiting_) values_.push_back(std::move(entry.value));
  values_.insert(values_.end(), also.begin(), also.end());
  numbers_.resize(values_.size());
  Backend::read_all(std::span<Value const>(values_), std::span<double>(numbers_));
  for (std::size_t i = 0; i != waiting_.size(); ++i)
    cells[waiting_[i].metric].epoch.add(numbers_[i], waiting_[i].weight);
  bool const finite = std::ranges::all_of(std::span(numbers_).subspan(waiting_.size()),
                                          [](double number) { return std::isfinite(number); });
  for (auto& cell : cells) cell.waiting = 0;
  waiting_.clear();
  values_.clear();
  folded_ = 0;
  return finite;
}

template <class Backend>
void BoardEntries<Backend>::discard_step(Cells cells, std::span<Slot> slots) {
  for (auto& slot : slots) slot.holds = Slot::Holds::nothing;
  for (auto& cell : cells)
    if (std::exchange(cell.again, false)) cell.epoch = cell.before;
  for (; waiting_.size() > folded_; waiting_.pop_back()) --cells[waiting_.back().metric].waiting;
  earlier_.clear();
  dirty_ = false;
}

template <class Backend>
void BoardEntries<Backend>::restart(Cells cells, std::span<Slot> slots) {
  for (auto& cell : cells) cell.restart();
  for (auto& slot : slots) slot = {};
  waiting_.clear();
  earlier_.clear();
  folded_ = 0;
  dirty_ = false;
}

template <class Backend>
void BoardEntries<Backend>::clear(Cells cells, std::span<Slot> slots) {
  restart(cells, slots);
  std::ranges::fill(cells, Cell());
}

template <class Backend>
void BoardEntries<Backend>::reserve(std::size_t metrics, std::size_t steps) {
  auto const entries = std::min(most_waiting + metrics, steps * metrics);
  waiting_.reserve(entries);
  values_.reserve(entries);
  numbers_.reserve(entries);
}

template <class Backend>
void BoardEntries<Backend>::state(Cells cells, std::span<std::string_view const> names, auto& archive) {
  for (std::size_t i = 0; i != cells.size(); ++i)
    if (!lacks(archive, names[i])) archive.child(names[i], cells[i]);
  leave_out_others(archive);
}

template <class Backend>
void BoardEntries<Backend>::keep_earlier(Cell& cell, Slot const& slot, std::size_t metric) {
  if (!std::exchange(cell.again, true)) cell.before = cell.epoch;
  if (slot.holds == Slot::Holds::tensor) earlier_.push_back({metric, slot.tensor, cell.weight, cell.origin});
}

template <class Backend>
void BoardEntries<Backend>::wait(Cell& cell, Slot& slot, std::size_t metric) {
  waiting_.push_back({metric, std::move(slot.tensor), cell.weight});
  ++cell.waiting;
}

template <class List, class Backend>
class Board;

template <auto... Ms, class Backend>
class Board<MetricList<Ms...>, Backend> : public BoardEntries<Backend> {
  using Entries = BoardEntries<Backend>;
  using Entries::dirty_;
  using Entries::earlier_;
  using Entries::folded_;
  using Entries::waiting_;
  using typename Entries::Slot;

 public:
  using typename Entries::Entry;
  using Value = typename Backend::Value;
  using List = MetricList<Ms...>;
  using Counts = metric::Counts<List, Backend>;
  static constexpr std::size_t size = sizeof...(Ms);

  /// Stores a value. If the metric has a value in this step already, that one is folded first, so both count.
  [[gnu::always_inline]] void log_tensor(std::size_t metric, Value const& value, double weight, Origin origin) {
    auto& slot = open(metric, weight, origin);
    slot.tensor = Backend::keep(value);
    slot.holds = Slot::Holds::tensor;
  }
  [[gnu::always_inline]] void log_number(std::size_t metric, double value, double weight, Origin origin) {
    auto& slot = open(metric, weight, origin);
    slot.number = value;
    slot.holds = Slot::Holds::number;
  }

  /// Records an update of the definition of the metric at position `I`; it is added when the step is over.
  template <std::size_t I, class... Args>
  void count(Args const&... args) {
    counts.take(I, counts.template get<I>().tallied(args...));
    dirty_ = true;
  }

  /// Called after a step: adds values on the host to the epoch's totals; other values wait for `collect`.
  [[gnu::always_inline]] void fold() {
    if constexpr (size != 0) {
      if (!dirty_) return;
      for (std::size_t i = 0; i != size; ++i) {
        settle(i);
        cells_[i].again = false;
      }
      if constexpr (Counts::any) counts.fold();
      dirty_ = false;
      earlier_.clear();
      folded_ = waiting_.size();
      if (folded_ >= Entries::most_waiting) [[unlikely]]
        this->read_waiting(cells_, {});
    }
  }

  /// Reads all waiting values, with one synchronisation of the host, and `also`. Returns true if the latter are all
  /// finite.
  bool collect(std::span<Value const> also = {}) {
    fold();
    return this->read_waiting(cells_, also);
  }

  /// Drops the entries of this step: a closure is evaluated again, and only its last evaluation counts.
  void discard_step() {
    Entries::discard_step(cells_, slots_);
    if constexpr (Counts::any) counts.discard_step();
  }

  /// Called when a new epoch or evaluation begins.
  void restart() {
    Entries::restart(cells_, slots_);
    if constexpr (Counts::any) counts.restart();
  }

  /// Makes this a new board: nothing of its metrics is known, not even where they were logged.
  void clear() {
    Entries::clear(cells_, slots_);
    if constexpr (Counts::any) counts.restart();
  }

  void reserve(std::size_t steps) { Entries::reserve(size, steps); }
  /// True if so many more entries may wait before the next fold, which then reads none.
  bool has_room(std::size_t entries) const { return waiting_.size() + entries < Entries::most_waiting; }

  /// Calls f(Entry) for each tensor and each update that this step has logged so far; a recording keeps them.
  void each_pending(auto&& f) const {
    for (auto const& entry : earlier_) f(entry);
    for (std::size_t i = 0; i != size; ++i)
      if (slots_[i].holds == Slot::Holds::tensor) f(Entry{i, slots_[i].tensor, cells_[i].weight, cells_[i].origin});
    if constexpr (Counts::any)
      counts.each_taken([&](std::size_t i, Value const& more) { f(Entry{i, more, 1, Origin::train_step}); });
  }
  /// Stores an entry. No one else uses its value, so it is not copied.
  void post([[maybe_unused]] Entry const& entry) {
    if constexpr (Counts::any) {
      if (List::counted[entry.metric]) {
        counts.take(entry.metric, entry.value);
        dirty_ = true;
        return;
      }
    }
    if constexpr (size != 0) {
      auto& slot = open(entry.metric, entry.weight, entry.origin);
      slot.tensor = entry.value;
      slot.holds = Slot::Holds::tensor;
    }
  }

  /// Saves or loads the open epoch's totals and counts, each under the name of its metric. Values that wait for a
  /// device are read first. A metric that the saved state does not have starts empty.
  void state(auto& archive) {
    collect();
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) restart();
    if constexpr (Counts::any) {
      for (std::size_t i = 0; i != size; ++i)
        if (!lacks(archive, List::names[i]))
          archive.child(List::names[i], [&](auto& inner) {
            cells_[i].state(inner);
            counts.state(i, inner);
          });
      leave_out_others(archive);
    } else {
      Entries::state(cells_, List::names, archive);
    }
  }

  /// Sets the result of a metric's meter, over all ranks, as the metric's value of this epoch, like a logged value.
  void settle_count(std::size_t metric, double value, Origin origin) {
    auto& cell = cells_[metric];
    cell.restart();
    slots_[metric] = {};
    cell.origin = origin;
    cell.epoch.add(value, 1);
    cell.shared = true;
  }

  [[no_unique_address]] Counts counts{};  ///< of metrics that have a definition

  Cell& operator[](std::size_t metric) { return cells_[metric]; }
  Cell const& operator[](std::size_t metric) const { return cells_[metric]; }
  std::span<Cell> cells() { return cells_; }

 private:
  [[gnu::always_inline]] Slot& open(std::size_t metric, double weight, Origin origin) {
    auto& slot = slots_[metric];
    if (slot.holds != Slot::Holds::nothing) [[unlikely]]
      settle_early(metric);
    auto& cell = cells_[metric];
    cell.weight = weight;
    cell.origin = origin;
    cell.in_step_row = true;
    dirty_ = true;
    return slot;
  }

  /// Called if the metric was logged in this step before.
  void settle_early(std::size_t metric) {
    this->keep_earlier(cells_[metric], slots_[metric], metric);
    settle(metric);
  }

  void settle(std::size_t metric) {
    if constexpr (size == 0) return;  // g++ 12 warns of the cells that a board without metrics does not have
    auto& slot = slots_[metric];
    auto& cell = cells_[metric];
    if (slot.holds == Slot::Holds::number) {
      cell.epoch.add(slot.number, cell.weight);
    } else if (slot.holds == Slot::Holds::tensor) {
      if (Backend::reading_waits(slot.tensor)) this->wait(cell, slot, metric);
      else cell.epoch.add(Backend::read(slot.tensor), cell.weight);
      slot.tensor = Value{};
    }
    slot.holds = Slot::Holds::nothing;
  }

  std::array<Cell, size> cells_{};
  std::array<Slot, size> slots_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/metric/board.ipp>
#endif
