#pragma once
// When a bar or a dashboard draws again: not with each batch, which may be a matter of microseconds.

#include <limits>

namespace fulgurite {

/// Remembers when something was drawn last.
class Redraws {
 public:
  /// Whether `seconds` have passed since the last time at which this said so, or `begin` was called.
  bool due(double now, double seconds) {
    if (now - last_ < seconds) return false;
    last_ = now;
    return true;
  }
  /// Counts from here on.
  void begin(double now) { last_ = now; }

 private:
  double last_ = -std::numeric_limits<double>::infinity();
};

}  // namespace fulgurite
