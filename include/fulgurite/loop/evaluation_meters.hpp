#pragma once
// Metrics that are counted in an evaluation: from updates to values, which go the way of logged ones.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite::loop {

/// An evaluation begins, or is over: nothing is counted, and no memory is kept.
template <class R>
void restart_meters(State<R>& run) {
  using Meters = typename Measured<R>::Meters;
  if constexpr (Meters::any) {
    run.measured.eval_meters.resize(run.measured.eval_boards.size());
    for (auto& meters : run.measured.eval_meters) meters.restart();
    if constexpr (Meters::any_several) run.measured.several.assign(run.measured.eval_boards.size(), {});
  }
}

/// What a meter has come to on all ranks; nothing where it was not updated. The few batches of a sanity check may be
/// too few for a value to be defined, and are no reason to end.
template <class R, class Meter>
auto counted_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  try {
    if constexpr (shares<R>)
      if (!run.shared.alone) return meter.value(run.parts.strategy);
    if (meter.updates() == 0) return std::nullopt;
    return meter.compute();
  } catch (Error const& error) {
    bool const too_few = error.identifier() == "fulgurite.metric.one_class" ||
                         error.identifier() == "fulgurite.metric.constant_target" ||
                         error.identifier() == "fulgurite.metric.empty";
    if (run.facts.sanity_checking && too_few) return std::nullopt;
    throw;
  }
}

/// The batches are over: what was counted becomes a value of each loader's board. Every rank comes here.
template <class R>
void settle_meters(State<R>& run) {
  if constexpr (Measured<R>::Meters::any) {
    for (std::size_t b = 0; b != run.measured.eval_meters.size(); ++b) {
      auto& board = run.measured.eval_boards[b];
      run.measured.eval_meters[b].each([&](auto at, auto& meter) {
        using M = typename Measured<R>::Meters::template Declared<at>;
        auto const value = counted_value(run, meter);
        if (!value) return;
        if constexpr (metric::counts_several<M>)
          meter.definition().each(*value, [&](std::string_view name, double number) {
            run.measured.several[b].emplace_back((std::string(M::name()) += '.') += name, number);
          });
        else board.log_number(at, *value, 1, Origin::evaluation);
      });
      board.fold();
    }
  }
}

/// What watching such a metric means with several loaders: its value over the samples of all of them, which is not the
/// mean of the loaders' values.
template <class R>
void publish_meters(State<R>& run) {
  if constexpr (Measured<R>::Meters::any) {
    if (run.measured.eval_meters.size() < 2) return;
    typename Measured<R>::Meters merged;
    for (auto& meters : run.measured.eval_meters)
      meters.each([&](auto at, auto& meter) { merged.template get<at>().merge(meter); });
    merged.each([&](auto at, auto& meter) {
      if constexpr (metric::counts_several<typename Measured<R>::Meters::template Declared<at>>) return;
      else if (auto const value = counted_value(run, meter)) {
        run.measured.results[at] = {};
        run.measured.results[at].add(*value, 1);
      }
    });
  }
}

}  // namespace fulgurite::loop
