#pragma once
// Strategies that replay recorded steps, and check now and then that the replays are right.

namespace fulgurite {

/// A strategy that replays steps and checks its replays: it has unchecked(), half_checked(), confirm(board, step),
/// replays(), may_replay(), goes_back(), give_up(reason) and tell(f). A strategy that captures and has no unchecked()
/// says that its replays cannot be wrong.
template <class S>
concept ChecksReplays = S::captures && requires(S const& strategy) { strategy.unchecked(); };

}  // namespace fulgurite
