#pragma once
// One sentence for a training loop that waits for its data while processors are idle.

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <type_traits>

#include <fulgurite/concept/waited.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Processors that had nothing to do in a pass that kept the loop waiting for a quarter of five seconds or more, on a
/// machine with so many; 0 where there is nothing to say.
FULGURITE_COLD int idle_while_waiting(Waited const& waited, unsigned processors) {
  double const idle = static_cast<double>(processors) - waited.busy;
  return waited.pass < 5 || waited.seconds < waited.pass / 4 || idle < 1 ? 0 : static_cast<int>(idle);
}

/// Said once a fit, when an epoch is over.
template <class R, class Loader>
void advise_on_data(State<R>& run, Loader const& loader) {
  if constexpr (TellsWaiting<std::remove_cvref_t<Loader>>) {
    Waited const waited = loader.waited();
    unsigned const processors = std::max(1U, std::thread::hardware_concurrency());
    int const idle = idle_while_waiting(waited, processors);
    if (idle == 0) return;
    std::string const part = std::to_string(std::lround(100 * waited.seconds / waited.pass));
    run.warn("fulgurite.data.waits", "the loop waited for its batches for " + part + " % of epoch " +
                                         std::to_string(run.progress.epoch) + ", and " + std::to_string(idle) + " of " +
                                         std::to_string(processors) +
                                         " processors had nothing to do: give the training loader .workers = " +
                                         std::to_string(waited.workers + std::min(idle, 8)) + " (it has " +
                                         std::to_string(waited.workers) + "), and more until the wait ends");
  }
}

}  // namespace fulgurite::loop
