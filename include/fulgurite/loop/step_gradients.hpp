#pragma once
// The gradients of one batch under automatic optimization: training_step, clearing, backward, through the strategy's
// seam.

#include <string_view>

#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/early_looks.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/loop/split_step.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/step_seam.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite::loop {

/// Somebody sees what the closure returns: an optimizer that evaluates it, or the model's own optimizer_step.
template <class R>
inline constexpr bool closure_is_shown = Optimizers<R>::needs_closure || hook::optimizer_step::named<typename R::Model>;

/// training_step, clearing, backward: everything that a capture records.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline auto step_body(State<R>& run, Pack& pack, Ctx& ctx) {
  return [&run, &pack, &ctx](auto& taken, StepKey key) __attribute__((always_inline)) {
    using Backend = typename R::Backend;
    auto& model = *run.parts.model;
    auto result = [&] {
      [[maybe_unused]] auto const watched = pack.template profile<action::training_step<R>>();
      [[maybe_unused]] auto const scope = Backend::autocast(run.parts.precision, run.parts.strategy.device());
      [[maybe_unused]] auto const watch = watch_factories(run);
      return call_training_step(model, taken, run.carried.hidden, ctx);
    }();
    check_loss_type(run, loss_of<Backend>(result));
    if (key.first) clear_gradients(run, pack, ctx);
    if (auto* loss = loss_of<Backend>(result)) {
      if constexpr (requires { run.parts.strategy.pre_backward(*loss); }) run.parts.strategy.pre_backward(*loss);
      tell<hook::on_before_backward>(run, pack, *loss, ctx);
      hook::timed<action::backward<R>>(pack)(
          [&]() __attribute__((always_inline)) { backward(run, ctx, *loss, 1.0 / key.divisor); });
      tell<hook::on_after_backward>(run, pack, ctx);
      if constexpr (requires { run.parts.strategy.post_backward(*loss); }) run.parts.strategy.post_backward(*loss);
    }
    return result;
  };
}

/// What a strategy that replays steps has to say goes where all warnings go.
template <class R>
void hear_strategy(State<R>& run) {
  if constexpr (ChecksReplays<typename R::Strategy>)
    run.parts.strategy.tell(
        [&](std::string_view identifier, std::string_view sentence) { run.warn_each(identifier, sentence); });
}

/// Gradients of one batch, through the strategy's seam.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto gradients(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key) {
  using Backend = typename R::Backend;
  [[maybe_unused]] auto body = step_body(run, pack, ctx);
  begin_looks<R, Pack>(run, key);
  leave_gradients(run, key);
  auto output = [&] {
    if constexpr (splits_model<R>) {
      return split_gradients(run, pack, ctx, batch, key);
    } else if constexpr (ChecksReplays<typename R::Strategy>) {
      StepSeam<R, decltype(body)> seam(run, key, body);
      auto made = run.parts.strategy.gradients(key, batch, run.measured.train_board, seam);
      hear_strategy(run);
      return made;
    } else {
      return run.parts.strategy.gradients(key, batch, run.measured.train_board,
                                          [&](auto& taken) { return body(taken, key); });
    }
  }();
  if constexpr (scales_loss<R>)
    run.facts.has_gradients = loss_of<Backend>(output) != nullptr || (run.facts.has_gradients && !key.first);
  check_output(run, output);
  if constexpr (closure_is_shown<R>)
    if (auto* loss = loss_of<Backend>(output)) run.carried.loss = Backend::detached(*loss, 1.0);
  return output;
}

/// Where what replayed steps have made is about to count: each kind of them is checked. Throws WrongReplay.
template <class R, class Pack, class Ctx>
void confirm_steps(State<R>& run, Pack& pack, Ctx& ctx) {
  if constexpr (ChecksReplays<typename R::Strategy>) {
    if (run.parts.strategy.unchecked() != 0) {
      auto body = step_body(run, pack, ctx);
      StepSeam<R, decltype(body)> seam(run, {true, true, 1}, body);
      run.parts.strategy.confirm(run.measured.train_board, seam);
      hear_strategy(run);
    }
    deliver_held(run, pack);
  }
}

}  // namespace fulgurite::loop
