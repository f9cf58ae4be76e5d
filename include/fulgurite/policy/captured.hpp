#pragma once
// Captured{strategy}, as it is for strategies that nobody has taught to replay a step: one sentence.

#include <type_traits>
#include <utility>

namespace fulgurite {

namespace policy {
template <class S>
inline constexpr bool can_be_captured = false;

/// The strategy itself in place of a refused Captured, so that nothing else is reported.
struct NoStrategy {
  template <class S>
  explicit NoStrategy(S const&) {}
};
template <class S>
using OrNothing = std::conditional_t<std::is_class_v<S> && !std::is_final_v<S>, S, NoStrategy>;
}  // namespace policy

/// `go_back`: where a check finds that steps were replayed wrongly, the fit returns to the last state that was right,
/// of which it keeps a copy in memory, and runs on from there as it is written. Without, it ends with an Error.
struct CaptureOptions {
  /// Where a replay is found to be wrong, the fit returns to the last state that was known to be right, and goes on
  /// from there as written; false: an Error.
  bool go_back = true;
};

// With CUDA's headers Captured is another class than without them. It has another name, too, so that a program may hold
// parts that were built either way.
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
inline namespace with_cuda_graphs {
#endif

/// A strategy that records training steps and replays them from then on, with the same bits. Each strategy it runs has
/// a specialization, since it must know all that happens in a step: torch/capture/captured.hpp has the one of
/// SingleDevice.
template <class S>
class Captured : public policy::OrNothing<S> {
  static_assert(policy::can_be_captured<S>,
                "[fulgurite.capture.strategy] Captured cannot replay the steps of this strategy: use SingleDevice, or "
                "the strategy without Captured");

 public:
  explicit Captured(S strategy, CaptureOptions = {}) : policy::OrNothing<S>(std::move(strategy)) {}
};

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
}  // namespace with_cuda_graphs
#endif

}  // namespace fulgurite
