#pragma once
// What distinguishes one recorded training step from another.

namespace fulgurite {

/// Passed to `Strategy::gradients`: a strategy that records steps keeps one recording per key (and per batch shape).
struct StepKey {
  bool first;   ///< the first batch of an accumulation window: gradients are cleared in it
  bool closes;  ///< the last batch of its window: an optimizer step follows
  int divisor;  ///< the window's length: backward starts from 1 / divisor

  friend constexpr bool operator==(StepKey const&, StepKey const&) = default;
};

}  // namespace fulgurite
