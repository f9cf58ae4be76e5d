#pragma once
// What a loader tells of the time that the loop spent waiting for its batches.

#include <concepts>

namespace fulgurite {

/// Of a loader's last pass: seconds that the loop waited for batches, seconds that the pass took, how many processors
/// the whole process kept busy meanwhile, and the loader's workers.
struct Waited {
  double seconds = 0, pass = 0, busy = 0;
  int workers = 0;
};

/// A loader that can tell it. One of yours may: a training loader that lets the loop wait while processors are idle is
/// then spoken of, once a fit.
template <class L>
concept TellsWaiting = requires(L const& loader) {
  { loader.waited() } -> std::convertible_to<Waited>;
};

}  // namespace fulgurite
