#pragma once
// What a hook may answer. Every callback sees every event; the gravest answer wins.

#include <cstdint>

namespace fulgurite {

/// "Stop training": `void on_train_epoch_end(...)` becomes `Stop on_train_epoch_end(...) { return Stop{wait >=
/// patience}; }`.
struct Stop {
  bool now = true;
};

/// The answer of `on_train_batch_start` alone, where an epoch can be left early (Lightning's -1): `return
/// Flow::skip_epoch;`. The loops use it for every hook, since the three answers are ordered by gravity.
enum class Flow : std::uint8_t { proceed, skip_epoch, stop };

/// By value on purpose: std::max returns a reference, for which g++ 12 spills a one-byte enum to the stack.
constexpr Flow graver(Flow a, Flow b) { return a < b ? b : a; }

/// What a hook answered, in the one vocabulary of the loops.
constexpr Flow as_flow(Stop answer) { return answer.now ? Flow::stop : Flow::proceed; }
constexpr Flow as_flow(Flow answer) { return answer; }

}  // namespace fulgurite
