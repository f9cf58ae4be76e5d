#pragma once
// The value of what a meter has counted, over all ranks.

#include <optional>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite::loop {

/// There were too few samples for a value to be defined, such as those of one class alone.
inline bool is_too_few(Error const& error) {
  return error.identifier() == "fulgurite.metric.one_class" ||
         error.identifier() == "fulgurite.metric.constant_target" || error.identifier() == "fulgurite.metric.empty";
}

/// What a meter has come to on all ranks, each of which asks; nothing where none of them has updated it.
template <class R, class Meter>
auto counted_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  if constexpr (shares<R>)
    if (!run.shared.alone) return meter.value(run.parts.strategy);
  if (meter.updates() == 0) return std::nullopt;
  return meter.compute();
}

}  // namespace fulgurite::loop
