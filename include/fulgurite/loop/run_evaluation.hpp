#pragma once
// validate and test: the frame and one evaluation.

#include <optional>
#include <vector>

#include <fulgurite/loop/end_if_asked.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/evaluated_file.hpp>
#include <fulgurite/loop/evaluation_rehearsal.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/special_run.hpp>
#include <fulgurite/loop/transfer.hpp>

namespace fulgurite::loop {

/// One list of values for each loader.
template <class Kind, class R, class Pack, class Source, class From>
std::vector<std::vector<MetricValue>> run_evaluation(State<R>& run, Pack& pack, Source& source, Stage stage,
                                                     Limit limit, From const& from) {
  check_special(run, pack);
  run.facts = {};
  run.facts.stage = stage;
  forget_results(run);
  Context<R, typename Kind::Phase> ctx(run);
  SearchesOf<R, Pack> const searches(run);
  auto results = framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx, EvaluatedFile<R, Pack, Source, From>(run, pack, source, from));
    searches.template answer<Kind, NoModule>(pack, source, limit);
    auto values = limit.none()
                      ? std::vector<std::vector<MetricValue>>{}
                      : evaluate<Kind>(run, pack, source, evaluation_loaders<typename Kind::Loader>(run, source), limit,
                                       std::nullopt);
    run.parts.strategy.teardown(*run.parts.model);
    tell_all<hook::teardown>(run, pack, source, ctx);
    searches.warn();
    finalize_loggers(pack, Status::success);
    return values;
  });
  end_if_asked(pack);
  return results;
}

}  // namespace fulgurite::loop
