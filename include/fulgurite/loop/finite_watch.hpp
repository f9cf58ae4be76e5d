#pragma once
// What a run remembers of its search for losses and gradients that are infinite or not a number.

#include <cstdint>
#include <optional>
#include <vector>

namespace fulgurite::loop {

/// Whether they are looked for; `found`: the window at hand has one, and its update is to be left out.
enum class Look : std::uint8_t { off, on, found };

/// Value: a tensor.
template <class Value>
struct FiniteWatch {
  Look look = Look::off;
  bool fresh = false;  ///< something was noted since `noted` was read
  /// Kept on the device, so that the host need not wait: it is not a number from the first such loss on.
  std::optional<Value> noted = std::nullopt;
  long read_at = 0;                ///< global_step when `noted` was read last
  int scaled_out = 0;              ///< updates that a scaler has left out since the last one that it let through
  std::vector<Value> before = {};  ///< weights as they were before a step that evaluates a closure
};

}  // namespace fulgurite::loop
