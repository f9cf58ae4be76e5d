#pragma once
// What is counted of the metrics of a list that have a definition: their meters, and what the step at hand adds to
// them when it is over.

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/metric/declared_meters.hpp>

namespace fulgurite::metric {

/// Part of a Board. Without such a metric it is nothing.
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

  /// Waits for `fold`: what an update of the step at hand adds. A recorded step posts it again on each replay.
  void take(std::size_t metric, Tally more) { taken_.emplace_back(metric, std::move(more)); }
  /// The step is over.
  void fold() {
    for (auto const& [metric, more] : taken_) {
      auto const add = [&, wanted = metric](std::size_t at, auto& meter) {
        if (at == wanted) meter.add(more);
      };
      this->each(add);
    }
    taken_.clear();
  }
  /// The step is evaluated again.
  void discard_step() { taken_.clear(); }
  /// Nothing has been counted.
  void restart() {
    taken_.clear();
    Meters::restart();
  }
  /// f(position of the metric, what the step at hand adds to it)
  template <class F>
  void each_taken(F&& f) const {
    for (auto const& [metric, more] : taken_) f(metric, more);
  }

  /// Adds what another rank, or loader, has counted.
  void merge(Counts& other) {
    this->each([&](auto at, auto& meter) { meter.merge(other.template get<at>()); });
  }
  /// One of the metrics, as it is after `fold`.
  void state(std::size_t metric, auto& archive) {
    this->each([&](std::size_t at, auto& meter) {
      if (at != metric || lacks(archive, "counted")) return;
      archive.child("counted", meter);
    });
  }

 private:
  std::vector<std::pair<std::size_t, Tally>> taken_{};
};

}  // namespace fulgurite::metric
