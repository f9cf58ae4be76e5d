#pragma once
// What is done with one batch of training: its step and its end hooks.

#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/window_place.hpp>

namespace fulgurite::loop {

/// One step; of a recurrent model one for each slice of the batch, the last of which stands for it.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto automatic_batch(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch,
                                                   WindowPlace const& window) {
  if constexpr (!Recurrent<typename R::Model>) {
    return automatic_step(run, pack, ctx, batch, window.key, window.rescale);
  } else {
    auto slices = time_slices<R>(*run.parts.model, batch, run.asked.optimization.tbptt, ctx);
    using Result = decltype(automatic_step(run, pack, ctx, *std::begin(slices), window.key, 1.0));
    std::optional<Result> result;
    auto& stepped = run.carried.slices;
    if (stepped == 0) run.carried.hidden.reset();
    long at = 0;
    for (auto& slice : slices) {
      if (at++ < stepped) continue;  // in the fit that goes on with this batch
      result.emplace(automatic_step(run, pack, ctx, slice, {true, true, 1}, 1.0));
      run.measured.train_board.fold();
      if constexpr (is_optional<Result>) {
        if (*result) run.carried.hidden.emplace(R::Backend::detached_state((*result)->hidden));
      } else {
        run.carried.hidden.emplace(R::Backend::detached_state(result->hidden));
      }
      stepped = at;
    }
    stepped = 0;
    run.carried.hidden.reset();
    if (!result)
      throw Error("fulgurite.data.no_slice", "batch " + std::to_string(run.facts.batch_idx) +
                                                 " has no time step, so it has no slice: leave it out");
    return std::move(*result);
  }
}

/// The step is over, and its end hooks are due: a file that one of them writes goes on after it.
template <class Pack, class R>
[[gnu::always_inline]] inline void begin_end_hooks(State<R>& run) {
  using End = hook::on_train_batch_end;
  if constexpr (Pack::template names<End> || End::template named<typename R::Model>)
    run.facts.ended = run.progress.total_batches;
}

/// The step of this batch and the end hooks.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline Flow train_on(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch,
                                            WindowPlace const& window) {
  if constexpr (R::automatic) {
    auto result = hook::timed<action::run_training_batch>(pack)(
        [&]() __attribute__((always_inline)) { return automatic_batch(run, pack, ctx, batch, window); });
    if (run.facts.is_last_batch) tick_schedulers(run, ctx, Interval::epoch);
    run.measured.train_board.fold();
    begin_end_hooks<Pack>(run);
    using Outputs = typename OutputsOf<typename R::Backend, decltype(result)>::type;
    if constexpr (Pack::template wants_outputs<hook::on_train_batch_end, typename R::Model, typename R::Strategy,
                                               Outputs, Batch, Ctx>()) {
      auto outputs = outputs_of<typename R::Backend>(result, 1.0 / window.key.divisor);
      return tell<hook::on_train_batch_end>(run, pack, outputs, batch, ctx);
    } else {
      return tell<hook::on_train_batch_end>(run, pack, batch, ctx);
    }
  } else {
    hook::timed<action::run_training_batch>(pack)([&] { manual_step(run, pack, batch); });
    run.measured.train_board.fold();
    begin_end_hooks<Pack>(run);
    return tell<hook::on_train_batch_end>(run, pack, batch, ctx);
  }
}

}  // namespace fulgurite::loop
