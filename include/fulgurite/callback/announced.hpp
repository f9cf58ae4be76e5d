#pragma once
// What a bar or a dashboard announces of an epoch: its batches and its end, where a limit of the run may come before
// them.

#include <algorithm>
#include <optional>
#include <type_traits>

#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/report/progress_meter.hpp>

namespace fulgurite {

/// The batches of the epoch, `done` of which are over, up to the one in which max_steps ends it; nullopt where neither
/// is known. Where the loader has no size, it is an upper bound: the loader may end before max_steps. By hand, and of
/// sequences that are cut into slices, a batch makes any number of steps, so that max_steps says nothing of batches.
std::optional<long> announced_batches(auto& ctx, long done) {
  using R = typename std::remove_cvref_t<decltype(ctx)>::Run;
  std::optional<long> const batches = ctx.num_training_batches();
  auto const& most = ctx.options().max_steps;
  if constexpr (R::automatic && !Recurrent<typename R::Model>)
    if (most && *most >= 0) {
      long const window = ctx.accumulate_grad_batches(), steps = std::max(0L, *most - ctx.global_step());
      long const until = steps == 0 ? done : done - done % window + steps * window;
      return batches ? std::min(*batches, until) : until;
    }
  return batches;
}

/// When max_time ends training, in seconds of the trainer's clock, and whether it does so in this epoch.
class AnnouncedEnd {
 public:
  /// Training starts, or continues.
  void begin(auto& ctx) {
    auto const& most = ctx.options().max_time;
    moment_ = most ? std::optional(ctx.seconds_now() + most->count() - ctx.training_seconds()) : std::nullopt;
  }
  /// Gives the meter of an epoch its number of batches and its end.
  void announce(report::ProgressMeter& meter, auto& ctx) const {
    auto const& options = ctx.options();
    bool const minima_met =
        ctx.current_epoch() >= options.min_epochs.value_or(0) && ctx.global_step() >= options.min_steps.value_or(0);
    meter.set_total(announced_batches(ctx, meter.done()));
    meter.end_by(minima_met ? moment_ : std::nullopt);
  }

 private:
  std::optional<double> moment_ = std::nullopt;
};

}  // namespace fulgurite
