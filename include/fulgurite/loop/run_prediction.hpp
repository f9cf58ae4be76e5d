#pragma once
// predict: the frame and one pass.

#include <vector>

#include <fulgurite/loop/end_if_asked.hpp>
#include <fulgurite/loop/evaluated_file.hpp>
#include <fulgurite/loop/evaluation_rehearsal.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/loop/special_run.hpp>

namespace fulgurite::loop {

/// One list of predictions for each loader, each of them a `T`; empty ones where they are not to be kept.
template <class T, class R, class Pack, class Source, class From>
std::vector<std::vector<T>> run_prediction(State<R>& run, Pack& pack, Source& source, bool keep, From const& from) {
  if constexpr (splits_model<R>)
    throw Error("fulgurite.pipeline.predict",
                "predict returns what predict_step makes, and under this strategy one process alone would have it: "
                "load the file into a program with SingleDevice{cpu}, and predict there");
  auto const limit = run.asked.options.limit_predict_batches;
  check_special(run, pack);
  run.facts = {};
  run.facts.stage = Stage::predict;
  Context<R, phase::Predict> ctx(run);
  SearchesOf<R, Pack> const searches(run);
  auto all = framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx, EvaluatedFile<R, Pack, Source, From>(run, pack, source, from));
    searches.template answer<Prediction, T>(pack, source, limit);
    std::vector<std::vector<T>> predictions;
    if (!limit.none())
      predictions = predict<T>(run, pack, source, evaluation_loaders<hook::predict_dataloader>(run, source), keep);
    run.parts.strategy.teardown(*run.parts.model);
    tell_all<hook::teardown>(run, pack, source, ctx);
    searches.warn();
    finalize_loggers(pack, Status::success);
    return predictions;
  });
  end_if_asked(pack);
  return all;
}

}  // namespace fulgurite::loop
