#pragma once
// The bodies of loop/non_finite.hpp.

#include <fulgurite/loop/non_finite.hpp>

namespace fulgurite::loop {

FULGURITE_BODY std::string place_of_batch(long batch, int epoch, bool no_rows) {
  return "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
         (no_rows ? ", which has no rows," : "");
}

FULGURITE_BODY void refuse_update(std::string const& what, std::string const& where, long step,
                                  std::string const& buffer) {
  throw Error("fulgurite.loop.non_finite",
              what + " after " + where + ". The update was not made: the weights are those after step " +
                  std::to_string(step) + buffer +
                  ". Look at that batch, at the learning rate and at clipping; detect_anomaly = true names the "
                  "function. non_finite = NonFinite::skip leaves such updates out, NonFinite::ignore makes them");
}

FULGURITE_BODY void warn_of_skipped(Warn warn, std::string const& what, std::string const& where,
                                    std::string const& buffer) {
  warn("fulgurite.loop.non_finite_skipped",
       what + " after " + where +
           ": the update of its window is left out, and so are others like it (ctx.skipped_steps() counts them)" +
           buffer);
}

FULGURITE_BODY void refuse_non_finite(long from, long to) {
  throw Error("fulgurite.loop.non_finite",
              "a loss or a weight is not finite since one of the steps " + std::to_string(from) + " to " +
                  std::to_string(to) +
                  " (a GPU is asked at the cadence of the logs, log_every_n_steps). Nothing was written since: the "
                  "last checkpoint is good. non_finite = NonFinite::skip waits for the GPU in each step and leaves "
                  "such updates out, NonFinite::ignore makes them");
}

}  // namespace fulgurite::loop
