#pragma once
// Steps of a strategy that takes the model apart: each process runs its part, a batch is cut into micro batches, and
// forward and backward of these take turns. The step of the model goes on to its end on the last process alone, which
// has the model's output.

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/flow.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/transfer.hpp>

namespace fulgurite::loop {

/// The gradients of the window before are cleared, with the hook that hears of it.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline void clear_gradients(State<R>& run, Pack& pack, Ctx& ctx) {
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  tell<hook::on_before_zero_grad>(run, pack, optimizer, ctx);
  [[maybe_unused]] auto const watched = pack.template profile<action::zero_grad<R>>();
  if constexpr (hook::optimizer_zero_grad::named<typename R::Model>)
    call_override<hook::optimizer_zero_grad>(*run.parts.model, ctx, optimizer);
  else optimizer.zero_grad();
}

/// What the strategy calls for each micro batch, in the order that it chooses.
template <class R, class Pack, class Ctx>
struct SplitStep {
  State<R>& run;
  Pack& pack;
  Ctx& ctx;
  StepKey key;

  /// training_step. What it logs counts with the samples of the micro batch.
  template <class Batch>
  typename R::Value forward(Batch& micro_batch) {
    [[maybe_unused]] auto const watched = pack.template profile<action::training_step<R>>();
    [[maybe_unused]] auto const scope = R::Backend::autocast(run.parts.precision, run.parts.strategy.device());
    [[maybe_unused]] auto const watch = watch_factories(run);
    measure(run, micro_batch);
    auto loss = call_training_step(*run.parts.model, micro_batch, run.carried.hidden, ctx);
    check_loss_type(run, &loss);
    return loss;
  }
  /// Where the loss is, of one of `count` micro batches.
  void backward(typename R::Value& loss, int count) {
    tell<hook::on_before_backward>(run, pack, loss, ctx);
    hook::timed<action::backward<R>>(pack)([&] { loop::backward(run, ctx, loss, 1.0 / (key.divisor * count)); });
  }
};

/// The gradients of one batch; returns the mean of its losses, which all processes know.
template <class R, class Pack, class Ctx, class Batch>
typename R::Value split_gradients(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key) {
  if (key.first) clear_gradients(run, pack, ctx);
  SplitStep<R, Pack, Ctx> step{run, pack, ctx, key};
  auto loss = run.parts.strategy.gradients(key, batch, run.measured.train_board, step);
  measure(run, batch);
  tell<hook::on_after_backward>(run, pack, ctx);
  return loss;
}

/// `step()`, which is validation_step or test_step, and the end hooks of its batch: with outputs where there are some.
template <class Hook, class R, class Pack, class Ctx, class Batch, class Step>
Flow split_evaluation(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, Step&& step) {
  auto& strategy = run.parts.strategy;
  if constexpr (std::is_void_v<decltype(step())>) {
    NoOutput nothing;
    if (strategy.evaluate(batch, step)) return tell<Hook>(run, pack, nothing, batch, ctx);
  } else {
    std::optional<std::remove_cvref_t<decltype(step())>> outputs;
    if (strategy.evaluate(batch, [&] { outputs.emplace(step()); })) return tell<Hook>(run, pack, *outputs, batch, ctx);
  }
  return tell<Hook>(run, pack, batch, ctx);
}

}  // namespace fulgurite::loop
