#pragma once
// The board: one cell for each declared metric, and a meter where it has a definition. Steps store into it, the loop
// folds it after each step.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/metric/cell.hpp>
#include <fulgurite/metric/counts.hpp>

namespace fulgurite {

/// One cell of a logger's row. The name lives as long as the program, or as long as the call.
struct Scalar {
  std::string_view name;
  double value;
};

/// `Backend` supplies the value type and reads it: `reading_waits`, `read`, `read_all`.
template <class List, class Backend>
class Board;

template <auto... Ms, class Backend>
class Board<MetricList<Ms...>, Backend> {
 public:
  using Value = typename Backend::Value;
  using List = MetricList<Ms...>;
  using Counts = metric::Counts<List, Backend>;
  static constexpr std::size_t size = sizeof...(Ms);
  static constexpr std::size_t most_waiting = 4096;  ///< entries kept for one reading of a device, at most

  /// One logged value, or what one update counts, as a recorded step posts it again on each replay.
  struct Entry {
    std::size_t metric;
    Value value;
    double weight;
    Origin origin;
  };

  /// A store. A second value in one step is folded first, so both count.
  [[gnu::always_inline]] void log_tensor(std::size_t metric, Value const& value, double weight, Origin origin) {
    auto& cell = open(metric, weight, origin);
    cell.tensor = Backend::keep(value);
    cell.pending = Cell<Value>::Pending::tensor;
  }
  [[gnu::always_inline]] void log_number(std::size_t metric, double value, double weight, Origin origin) {
    auto& cell = open(metric, weight, origin);
    cell.number = value;
    cell.pending = Cell<Value>::Pending::number;
  }

  /// Counts for the metric at position `I` what an update of its definition is given, when the step is over.
  template <std::size_t I, class... Args>
  void count(Args const&... args) {
    counts.take(I, counts.template get<I>().tallied(args...));
    dirty_ = true;
  }

  /// After a step: values on the host are added to the epoch's figures, others wait for `collect`.
  [[gnu::always_inline]] void fold() {
    if constexpr (size != 0) {
      if (!dirty_) return;
      for (auto& cell : cells_) {
        settle(cell);
        cell.again = false;
      }
      if constexpr (Counts::any) counts.fold();
      dirty_ = false;
      earlier_.clear();
      folded_ = waiting_.size();
      if (folded_ >= most_waiting) [[unlikely]]
        collect();
    }
  }

  /// Reads what waits, with one host synchronisation for all of it; `also` is a further value, which is returned.
  double collect(Value const* also = nullptr) {
    fold();
    if (waiting_.empty() && !also) return 0;
    values_.clear();
    for (auto& entry : waiting_) values_.push_back(std::move(entry.value));
    if (also) values_.push_back(*also);
    numbers_.resize(values_.size());
    Backend::read_all(std::span<Value const>(values_), std::span<double>(numbers_));
    if constexpr (size != 0) {  // else g++ -O2 warns of an array of none
      for (std::size_t i = 0; i != waiting_.size(); ++i)
        cells_[waiting_[i].metric].epoch.add(numbers_[i], waiting_[i].weight);
      for (auto& cell : cells_) cell.waiting = 0;
    }
    waiting_.clear();
    values_.clear();
    folded_ = 0;
    return numbers_.back();
  }

  /// Forgets the entries of this step: a closure is evaluated again, only its last evaluation counts.
  void discard_step() {
    for (auto& cell : cells_) {
      cell.pending = Cell<Value>::Pending::nothing;
      if (std::exchange(cell.again, false)) cell.epoch = cell.before;
    }
    for (; waiting_.size() > folded_; waiting_.pop_back()) --cells_[waiting_.back().metric].waiting;
    if constexpr (Counts::any) counts.discard_step();
    earlier_.clear();
    dirty_ = false;
  }

  /// A new epoch, or evaluation, begins.
  void restart() {
    for (auto& cell : cells_) cell.restart();
    if constexpr (Counts::any) counts.restart();
    waiting_.clear();
    earlier_.clear();
    folded_ = 0;
    dirty_ = false;
  }

  void reserve(std::size_t steps) {
    auto const entries = std::min(most_waiting + size, steps * size);
    waiting_.reserve(entries);
    values_.reserve(entries);
    numbers_.reserve(entries);
  }

  /// f(Entry) for what this step has logged so far as tensors, and counted; a recording keeps them.
  template <class F>
  void each_pending(F&& f) const {
    for (auto const& entry : earlier_) f(entry);
    for (std::size_t i = 0; i != size; ++i)
      if (cells_[i].pending == Cell<Value>::Pending::tensor)
        f(Entry{i, cells_[i].tensor, cells_[i].weight, cells_[i].origin});
    if constexpr (Counts::any)
      counts.each_taken([&](std::size_t i, Value const& more) { f(Entry{i, more, 1, Origin::train_step}); });
  }
  /// The value is nobody else's: no copy of it is needed.
  void post(Entry const& entry) {
    if constexpr (Counts::any) {
      if (List::counted[entry.metric]) {
        counts.take(entry.metric, entry.value);
        dirty_ = true;
        return;
      }
    }
    auto& cell = open(entry.metric, entry.weight, entry.origin);
    cell.tensor = entry.value;
    cell.pending = Cell<Value>::Pending::tensor;
  }

  /// The open epoch's figures and counts, each under the name of its metric. What waits for a device is read first. A
  /// metric that the saved state does not know begins anew.
  void state(auto& archive) {
    collect();
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) restart();
    [[maybe_unused]] auto const one = [&](std::string_view name, [[maybe_unused]] std::size_t i) {
      if (lacks(archive, name)) return;
      if constexpr (Counts::any)
        archive.child(name, [&](auto& inner) {
          cells_[i].state(inner);
          counts.state(i, inner);
        });
      else archive.child(name, cells_[i]);
    };
    [[maybe_unused]] std::size_t i = 0;
    (one(Ms.name(), i++), ...);
    leave_out_others(archive);
  }

  /// What a metric's meter has come to, over all ranks: its value of this epoch, like one that was logged.
  void settle_count(std::size_t metric, double value, Origin origin) {
    auto& cell = cells_[metric];
    cell.restart();
    cell.origin = origin;
    cell.epoch.add(value, 1);
    cell.shared = true;
  }

  [[no_unique_address]] Counts counts{};  ///< of metrics that have a definition

  Cell<Value>& operator[](std::size_t metric) { return cells_[metric]; }
  Cell<Value> const& operator[](std::size_t metric) const { return cells_[metric]; }

 private:
  struct Waiting {
    std::size_t metric;
    Value value;
    double weight;
  };

  [[gnu::always_inline]] Cell<Value>& open(std::size_t metric, double weight, Origin origin) {
    auto& cell = cells_[metric];
    if (cell.pending != Cell<Value>::Pending::nothing) [[unlikely]]
      settle_early(cell);
    cell.weight = weight;
    cell.origin = origin;
    cell.in_step_row = true;
    dirty_ = true;
    return cell;
  }

  /// The metric has been logged in this step before.
  void settle_early(Cell<Value>& cell) {
    if (!std::exchange(cell.again, true)) cell.before = cell.epoch;
    if (cell.pending == Cell<Value>::Pending::tensor)
      earlier_.push_back({position(cell), cell.tensor, cell.weight, cell.origin});
    settle(cell);
  }

  std::size_t position(Cell<Value> const& cell) const { return static_cast<std::size_t>(&cell - cells_.data()); }

  void settle(Cell<Value>& cell) {
    if (cell.pending == Cell<Value>::Pending::number) {
      cell.epoch.add(cell.number, cell.weight);
    } else if (cell.pending == Cell<Value>::Pending::tensor) {
      if (Backend::reading_waits(cell.tensor)) {
        waiting_.push_back({position(cell), std::move(cell.tensor), cell.weight});
        ++cell.waiting;
      } else {
        cell.epoch.add(Backend::read(cell.tensor), cell.weight);
      }
      cell.tensor = Value{};
    }
    cell.pending = Cell<Value>::Pending::nothing;
  }

  std::array<Cell<Value>, size> cells_{};
  std::vector<Waiting> waiting_;
  std::vector<Value> values_;
  std::vector<double> numbers_;
  std::vector<Entry>
      earlier_;             ///< tensors logged in this step and already settled, since their metric was logged again
  std::size_t folded_ = 0;  ///< of the waiting, those of finished steps
  bool dirty_ = false;
};

}  // namespace fulgurite
