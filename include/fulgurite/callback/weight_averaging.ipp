#pragma once
// The bodies of callback/weight_averaging.hpp.

#include <fulgurite/callback/weight_averaging.hpp>

namespace fulgurite {

FULGURITE_BODY EMAWeightAveraging::EMAWeightAveraging(EMAWeightAveragingOptions options)
    : WeightAveraging(averaging::Decay{checked(options).decay}, averaging::Moments{options},
                      {.use_buffers = options.use_buffers}) {}

FULGURITE_BODY EMAWeightAveragingOptions const& EMAWeightAveraging::checked(EMAWeightAveragingOptions const& o) {
  if (!(o.decay >= 0 && o.decay <= 1) || o.update_every_n_steps < 0 || o.update_starting_at_step.value_or(0) < 0 ||
      o.update_starting_at_epoch.value_or(0) < 0)
    throw Error("fulgurite.callback.ema_options",
                "EMAWeightAveraging: decay = " + std::to_string(o.decay) +
                    " lies between 0 and 1, counts of steps and epochs are not negative");
  return o;
}

}  // namespace fulgurite
