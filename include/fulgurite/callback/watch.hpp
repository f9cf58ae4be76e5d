#pragma once
// What callbacks that watch a metric share: which way is better, and when in an epoch to look.

#include <concepts>
#include <limits>
#include <optional>
#include <string_view>

#include <fulgurite/core/mode.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

/// A metric constant, `metric.last()`, or another view of one that `ctx.value` understands.
template <class M>
concept Watchable = requires {
  typename M::metric;
  { M::name() } -> std::convertible_to<std::string_view>;
};

namespace watch {

/// Strictly better; nothing is better than itself, and a NaN is better than nothing.
constexpr bool better(Mode mode, double a, double b) { return mode == Mode::min ? a < b : a > b; }

constexpr double worst(Mode mode) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return mode == Mode::min ? infinity : -infinity;
}

/// Inside fit, and not in a rehearsal: the sanity check, or a fast_dev_run.
constexpr bool in_fit(auto const& ctx) {
  return ctx.stage() == decltype(ctx.stage())::fit && !ctx.sanity_checking() && !ctx.dev_run();
}

/// The end of a training epoch is the place to look, unless the user says otherwise: where validation runs once at each
/// epoch's end, or never. Else the end of each validation is.
bool at_train_epoch_end(std::optional<bool> said, auto const& ctx) {
  return said.value_or(!ctx.has_validation() || ctx.validating_each_epoch_end());
}

}  // namespace watch
}  // namespace fulgurite
