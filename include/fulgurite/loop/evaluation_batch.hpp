#pragma once
// What every evaluation does: the switch of modes around it, and one batch.

#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/batch_pass.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/estimate.hpp>
#include <fulgurite/loop/evaluation_kind.hpp>
#include <fulgurite/loop/split_step.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/transfer.hpp>

namespace fulgurite::loop {

/// A loader that says it has nothing: an evaluation of it would have no value, and nobody would know why.
/// One rank of several may have no part of a small one.
template <class R, class Loader>
void check_not_empty(Loader& loader) {
  if (!shares<R> && size_of(loader) == 0)
    throw Error("fulgurite.data.empty",
                "an evaluation loader has no batch: leave it out, or set the limit of its batches to 0");
}

/// The mode switch around an evaluation: the model's own hook, or eval mode with every sub-module's mode restored
/// afterwards.
template <class Kind, class R, class Ctx, class Body>
void in_evaluation_mode(State<R>& run, Ctx& ctx, Body&& body) {
  auto& model = *run.parts.model;
  using Model = typename R::Model;
  if constexpr (Listens<typename Kind::model_eval, Model, Ctx>) {
    [[maybe_unused]] auto const modes = R::Backend::evaluating(model, false);
    invoke<typename Kind::model_eval>(model, ctx);
    body();
  } else {
    [[maybe_unused]] auto const modes = R::Backend::evaluating(model);
    body();
  }
  Context<R, typename Kind::EndPhase> after(run);
  if constexpr (Listens<typename Kind::model_train, Model, Context<R, typename Kind::EndPhase>>)
    invoke<typename Kind::model_train>(model, after);
}

template <class Kind, class R, class Pack, class Source, class Ctx, class Raw>
Flow evaluation_batch(State<R>& run, Pack& pack, Source& source, Ctx& ctx, Raw&& raw) {
  using Backend = typename R::Backend;
  auto& model = *run.parts.model;
  if (is_none(raw)) return tell<typename Kind::batch_end>(run, pack, ctx);  // left out by its loader: no step
  return with_batch(
      run, source, ctx, present(std::forward<Raw>(raw)),
      [&](auto& batch) {
        measure(run, batch);
        run.facts.in_batch = true;
        Flow flow = tell<typename Kind::batch_start>(run, pack, batch, ctx);
        auto step = [&]() -> decltype(auto) {
          [[maybe_unused]] auto const watched =
              pack.template profile<action::evaluation_step<R, typename Kind::Step>>();
          [[maybe_unused]] auto const scope = Backend::autocast(run.parts.precision, run.parts.strategy.device());
          [[maybe_unused]] auto const products = products_scope(run);
          return call_step<typename Kind::Step>(model, batch, ctx);
        };
        if constexpr (splits_model<R>) {
          flow = graver(flow, split_evaluation<typename Kind::batch_end>(run, pack, ctx, batch, step));
        } else if constexpr (std::is_void_v<decltype(step())>) {
          step();
          NoOutput nothing;
          flow = graver(flow, tell<typename Kind::batch_end>(run, pack, nothing, batch, ctx));
        } else {
          auto&& outputs = step();
          flow = graver(flow, tell<typename Kind::batch_end>(run, pack, outputs, batch, ctx));
        }
        run.facts.in_batch = false;
        run.measured.eval_boards[run.facts.loader].fold();
        return flow;
      },
      hook::timed<action::batch_to_device<R>>(pack));
}

}  // namespace fulgurite::loop
