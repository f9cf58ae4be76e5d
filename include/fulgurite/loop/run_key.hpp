#pragma once
// The key of a run: its four types. And which of the trainer's functions is at work.

#include <cstdint>

#include <fulgurite/metric/board.hpp>

namespace fulgurite {

/// Which of the trainer's functions is at work.
enum class Stage : std::uint8_t { fit, validate, test, predict };

/// The four types that decide everything a step sees; contexts are keyed on it, so they never know the callbacks.
template <class M, class S, class P, class O>
struct Run {
  using Model = M;
  using Strategy = S;
  using Precision = P;
  using Optimization = O;
  using Backend = typename S::Backend;
  using Value = typename Backend::Value;
  using Metrics = typename MetricsOf<M>::type;
  static constexpr bool automatic = O::automatic;
};

namespace phase {
struct Fit;
}
template <class R, class Phase>
class Context;

}  // namespace fulgurite
