#pragma once
// The bodies of callback/weight_averaging.hpp.

#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/archive.hpp>

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

void AveragedWeights::state(auto& archive) {
  constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
  std::vector<SavedTensor> values;
  if constexpr (!loading) {
    if (loaded_) values = *loaded_;
    else if (values_) values = values_->saved();
  }
  archive("n_averaged", count_)("in_model", in_model_)("values", values);
  if constexpr (loading) {
    if (in_fit_) commit(archive, values_->load(values));
    else loaded_ = std::move(values);
  }
}
FULGURITE_STATE(AveragedWeights)

}  // namespace fulgurite

namespace fulgurite::averaging {

void Decay::state(auto& archive) { archive.option("decay", decay); }
FULGURITE_STATE(Decay)

void Moments::state(auto& archive) {
  archive.option("update_every_n_steps", options.update_every_n_steps);
  archive.option("update_starting_at_step", options.update_starting_at_step);
  archive.option("update_starting_at_epoch", options.update_starting_at_epoch);
}
FULGURITE_STATE(Moments)

}  // namespace fulgurite::averaging
