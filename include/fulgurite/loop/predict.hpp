#pragma once
// One pass of predict_step over loaders, collecting what it returns.

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/pass_end.hpp>

namespace fulgurite {

/// Says that predictions are heard by callbacks alone and not collected: `trainer.predict(model, data,
/// DiscardPredictions{})`.
struct DiscardPredictions {};

namespace loop {

struct Prediction {
  using Phase = phase::Predict;
  using EndPhase = phase::Predict;
  using Step = hook::predict_step;
  using Loader = hook::predict_dataloader;
  using start = hook::on_predict_start;
  using end = hook::on_predict_end;
  using epoch_start = hook::on_predict_epoch_start;
  using epoch_end = hook::on_predict_epoch_end;
  using batch_start = hook::on_predict_batch_start;
  using batch_end = hook::on_predict_batch_end;
  using model_eval = hook::on_predict_model_eval;
  struct model_train : hook::on_predict_model_eval {  // predict has no such hook: modes are always restored
    template <class T>
    static constexpr bool named = false;
  };
};

/// What one batch of a loader makes predict_step return.
template <class R, class Batch>
using Predicted = std::remove_cvref_t<decltype(call_step<hook::predict_step>(
    std::declval<typename R::Model&>(), std::declval<Batch&>(), std::declval<Context<R, phase::Predict>&>()))>;

/// The predictions of each loader, in order; nothing where they are not to be kept. `T` is what predict_step returns.
template <class T, class R, class Pack, class Source, class Loaders>
std::vector<std::vector<T>> predict(State<R>& run, Pack& pack, Source& source, Loaders loaders, bool keep) {
  Context<R, phase::Predict> ctx(run);
  auto& model = *run.parts.model;
  auto& facts = run.facts;
  Facts const outside = facts;
  std::vector<std::vector<T>> all(std::tuple_size_v<Loaders>);
  in_evaluation_mode<Prediction>(run, ctx, [&] {
    [[maybe_unused]] auto const gradients_off = R::Backend::no_grad(run.asked.options.inference_mode);
    tell<hook::on_predict_start>(run, pack, ctx);
    tell<hook::on_predict_epoch_start>(run, pack, ctx);
    each_loader(loaders, [&](auto& loader, std::size_t position) {
      if (ends_pass(pack)) return;
      check_not_empty<R>(loader);
      facts.loader = position;
      auto const batches = batches_of(loader, run.asked.options.limit_predict_batches, "limit_predict_batches");
      facts.eval_batches = batches;
      facts.first_sample = place_in_loader(loader, 0);
      facts.sample_step = place_in_loader(loader, 1) - facts.first_sample;
      bool const any = each_batch(
          loader, batches,
          [&](auto&& raw, long b, auto&& end) {
            facts.batch_idx = b;
            facts.is_last_batch = end.before_step();
            if (is_none(raw)) tell<hook::on_predict_batch_end>(run, pack, ctx);
            else
              with_batch(
                  run, source, ctx, present(raw),
                  [&](auto& batch) {
                    measure(run, batch);
                    facts.in_batch = true;
                    tell<hook::on_predict_batch_start>(run, pack, batch, ctx);
                    auto outputs = [&] {
                      [[maybe_unused]] auto const watched =
                          pack.template profile<action::evaluation_step<R, hook::predict_step>>();
                      [[maybe_unused]] auto const scope =
                          R::Backend::autocast(run.parts.precision, run.parts.strategy.device());
                      [[maybe_unused]] auto const products = products_scope(run);
                      return T(call_step<hook::predict_step>(model, batch, ctx));
                    }();
                    tell<hook::on_predict_batch_end>(run, pack, outputs, batch, ctx);
                    facts.in_batch = false;
                    if (keep) all[position].push_back(std::move(outputs));
                    deliver_posted(run, pack, b);
                  },
                  hook::timed<action::batch_to_device<R>>(pack));
            facts.is_last_batch = end.after_step();
            return !facts.is_last_batch && !ends_pass(pack);
          },
          hook::timed<action::EvaluationNext<hook::predict_step>>(pack));
      if (!shares<R> && !any && batches != 0) refuse_empty_pass();  // of several ranks, one may have none
    });
    facts.loader = 0;
    tell<hook::on_predict_epoch_end>(run, pack, ctx);
    tell<hook::on_predict_end>(run, pack, ctx);
  });
  facts = outside;
  return all;
}

}  // namespace loop
}  // namespace fulgurite
