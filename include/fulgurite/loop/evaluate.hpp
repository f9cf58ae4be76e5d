#pragma once
// One pass over evaluation loaders: validation inside fit, validate, test.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/evaluation_batch.hpp>
#include <fulgurite/loop/evaluation_kind.hpp>
#include <fulgurite/loop/evaluation_meters.hpp>
#include <fulgurite/loop/evaluation_results.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/pass_end.hpp>
#include <fulgurite/loop/shared_figures.hpp>

namespace fulgurite::loop {

[[noreturn]] FULGURITE_COLD void refuse_empty_pass() {
  throw Error("fulgurite.data.empty",
              "an evaluation loader without size() had no batch: begin() must start a new pass each time; leave the "
              "loader out, or set the limit of its batches to 0, if nothing is to be evaluated");
}

/// The whole evaluation. `limit` is per loader; results go to the loggers and into `run.measured.results` unless this
/// is a sanity check.
template <class Kind, class R, class Pack, class Source, class Loaders>
std::vector<std::vector<MetricValue>> evaluate(State<R>& run, Pack& pack, Source& source, Loaders loaders,
                                               Limit const& limit, std::optional<long> most) {
  using Metrics = typename R::Metrics;
  Context<R, typename Kind::Phase> ctx(run);
  auto& facts = run.facts;
  Facts const outside = facts;
  constexpr std::size_t n = std::tuple_size_v<Loaders>;
  constexpr std::size_t outside_loaders = n > 1 ? n : 0;
  run.measured.eval_boards.resize(outside_loaders + 1);
  restart_boards(run);
  std::vector<std::vector<MetricValue>> results(n);
  auto const names = loader_names(loaders);
  if (run.measured.loader_names != names) run.measured.loader_results.assign(n, {});
  run.measured.loader_names = names;
  // What tells the values of one of several loaders from the others'.
  auto const suffix = [&](std::size_t loader) { return n > 1 ? "/" + names[loader] : std::string(); };
  facts.validating = true;
  facts.board = outside_loaders;
  Flow flow = Flow::proceed;

  in_evaluation_mode<Kind>(run, ctx, [&] {
    auto const gradients_off = [&] {
      if constexpr (std::is_same_v<Kind, Validation>)
        return R::Backend::no_grad(run.facts.stage != Stage::fit && run.asked.options.inference_mode);
      else return R::Backend::no_grad(run.asked.options.inference_mode);
    }();
    flow = graver(flow, tell<typename Kind::start>(run, pack, ctx));
    flow = graver(flow, tell<typename Kind::epoch_start>(run, pack, ctx));
    each_loader(loaders, [&](auto& loader, std::size_t position) {
      if (ends_pass(pack)) return;
      check_not_empty<R>(loader);
      if constexpr (requires { loader.set_epoch(long{}); })
        if (facts.stage == Stage::fit && !facts.sanity_checking) loader.set_epoch(long{run.progress.epoch});
      facts.loader = facts.board = position;
      auto batches = batches_of(loader, limit, Kind::limit);
      if (most) batches = batches ? std::min(*batches, *most) : *most;
      facts.eval_batches = batches;
      bool const any = each_batch(
          loader, batches,
          [&](auto&& raw, long b, auto&& end) {
            facts.batch_idx = b;
            facts.is_last_batch = end.before_step();
            flow = graver(flow, evaluation_batch<Kind>(run, pack, source, ctx, raw));
            if (!facts.sanity_checking)
              deliver_posted(run, pack, facts.stage == Stage::fit ? run.progress.logged_steps : b);
            if constexpr (has_logger<Pack> && any_per_step<Metrics>(Origin::evaluation)) {
              if (facts.stage != Stage::fit) {
                run.measured.eval_boards[position].collect();
                std::vector<MetricValue> row;
                each_step_value<Metrics>(run.measured.eval_boards[position], [&](std::string const& name, double v) {
                  row.push_back({name + suffix(position), v});
                });
                log_row(run, pack, row, b, false);
              }
            }
            facts.is_last_batch = end.after_step();
            return !facts.is_last_batch && !ends_pass(pack);
          },
          hook::timed<action::EvaluationNext<typename Kind::Step>>(pack));
      if (!shares<R> && !any && batches != 0)  // of several ranks, one may have none
        refuse_empty_pass();
    });
    facts.loader = 0;
    facts.board = outside_loaders;
    settle_meters(run);
    flow = graver(flow, tell<typename Kind::epoch_end>(run, pack, ctx));
    share_evaluation(run);
    std::vector<MetricValue> row;
    for (std::size_t l = 0; l != n; ++l) {
      auto& board = run.measured.eval_boards[l];
      board.collect();
      each_epoch_value<Metrics>(
          board, [&](std::string const& name, double v) { results[l].push_back({name + suffix(l), v}); });
      if constexpr (State<R>::Board::Counts::any_several)
        for (auto const& [name, v] : run.measured.several[l]) results[l].push_back({name + suffix(l), v});
      row.insert(row.end(), results[l].begin(), results[l].end());
    }
    if constexpr (n > 1) {  // what was logged outside of the loaders belongs to each of them
      run.measured.eval_boards[n].collect();
      each_epoch_value<Metrics>(run.measured.eval_boards[n], [&](std::string const& name, double v) {
        for (auto& result : results) result.push_back({name, v});
        row.push_back({name, v});
      });
    }
    if (!facts.sanity_checking) {
      publish(run);
      for (std::size_t l = 0; l != n; ++l)
        for (std::size_t i = 0; i != State<R>::metrics; ++i)
          run.measured.loader_results[l][i] = run.measured.eval_boards[l][i].epoch;
    }
    facts.validating = false;
    if constexpr (has_logger<Pack>)
      if (!facts.sanity_checking) log_row(run, pack, row, run.progress.logged_steps);
    if (flow == Flow::stop && !outside.sanity_checking) wish_stop(run);  // holds, should the next one fail
    Context<R, typename Kind::EndPhase> after(run);
    flow = graver(flow, tell<typename Kind::end>(run, pack, after));
    if (facts.stage != Stage::fit) deliver_posted(run, pack, run.progress.logged_steps);
  });
  if (flow == Flow::stop && !outside.sanity_checking) wish_stop(run);
  restart_boards(run);
  facts = outside;
  return results;
}

}  // namespace fulgurite::loop
