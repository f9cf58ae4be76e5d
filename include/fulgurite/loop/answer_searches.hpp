#pragma once
// What callbacks wanted tried out, answered by a fit where nothing else is under way.

#include <utility>

#include <fulgurite/loop/rehearsal.hpp>
#include <fulgurite/loop/training_plan.hpp>

namespace fulgurite::loop {

/// Loaders of another batch size, which the epoch at hand begins with.
template <class R, class Source>
void load_anew(State<R>& run, Source& source, EpochPlan& plan) {
  if constexpr (requires { source.reload_training(); }) {
    source.reload_training();
    source.reload_validation();
  }
  if (!run.loading.training_is_open) return;  // they are asked for later
  plan = plan_training(run, source);
  int const since = run.loading.validation_since;  // when the next reload is due stays as it was
  check_validation(run, source);
  run.loading.validation_since = since;
  auto& loader = source.train();
  if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{run.progress.epoch});
}

/// Each of `searches` gets a rehearsal. What it sets is what training goes on with.
template <class Searches, class R, class Pack, class Source>
void answer(Searches searches, State<R>& run, Pack& pack, Source& source, EpochPlan& plan) {
  Rehearsal<R, Pack, Source> rehearsal(run, pack, source);
  for (auto const& search : searches) {
    search(rehearsal);
    // The next search goes by the size that this one has found.
    if (std::exchange(run.searching.sizes_changed, false)) load_anew(run, source, plan);
  }
}

}  // namespace fulgurite::loop
