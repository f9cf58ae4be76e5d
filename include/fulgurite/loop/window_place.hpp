#pragma once
// Where a batch lies in its accumulation window.

#include <algorithm>
#include <optional>

#include <fulgurite/loop/step_key.hpp>

namespace fulgurite::loop {

/// Where a batch lies in its accumulation window.
struct WindowPlace {
  StepKey key;
  double rescale;  ///< of the gradients, where the window turned out shorter than its divisor (unsized loaders)
};

/// Windows restart each epoch; the last one may be shorter, and is the mean of the batches it has. `seen` batches of it
/// came before; they are fewer than its places where a loader left some out. `end`: the batch after it, if the loader
/// goes on so far.
inline WindowPlace window_of(long b, long start, long seen, long end, std::optional<long> batches, bool last) {
  long const divisor = (batches ? std::min(end, *batches) : end) - start;
  bool const closes = b + 1 == end || last;
  double const rescale =
      closes && seen + 1 != divisor ? static_cast<double>(divisor) / static_cast<double>(seen + 1) : 1.0;
  return {{seen == 0, closes, static_cast<int>(divisor)}, rescale};
}

}  // namespace fulgurite::loop
