#pragma once
// One pass over evaluation loaders: validation inside fit, validate, test.

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/transfer.hpp>

namespace fulgurite::loop {

/// The hooks and the step of one kind of evaluation.
struct Validation {
  using Phase = phase::Validate;
  using EndPhase = phase::ValidateEnd;
  using Step = hook::validation_step;
  using Loader = hook::val_dataloader;
  using start = hook::on_validation_start;
  using end = hook::on_validation_end;
  using epoch_start = hook::on_validation_epoch_start;
  using epoch_end = hook::on_validation_epoch_end;
  using batch_start = hook::on_validation_batch_start;
  using batch_end = hook::on_validation_batch_end;
  using model_eval = hook::on_validation_model_eval;
  using model_train = hook::on_validation_model_train;
  static constexpr char const* limit = "limit_val_batches";
};
struct Testing {
  using Phase = phase::Test;
  using EndPhase = phase::TestEnd;
  using Step = hook::test_step;
  using Loader = hook::test_dataloader;
  using start = hook::on_test_start;
  using end = hook::on_test_end;
  using epoch_start = hook::on_test_epoch_start;
  using epoch_end = hook::on_test_epoch_end;
  using batch_start = hook::on_test_batch_start;
  using batch_end = hook::on_test_batch_end;
  using model_eval = hook::on_test_model_eval;
  using model_train = hook::on_test_model_train;
  static constexpr char const* limit = "limit_test_batches";
};

/// Walks a loader up to `limit` batches: f(batch, index, is_last) answers whether to go on, which it must not after the last. An unsized loader is
/// read one batch ahead, to know its last. Returns whether there was any. `f` by value: what it holds can then stay in registers.
template <class Loader, class F>
bool each_batch(Loader& loader, std::optional<long> limit, F f) {
  if (limit && *limit == 0) return false;
  auto it = std::begin(loader);
  auto const stop = std::end(loader);
  if constexpr (SizedLoader<Loader>) {
    long const batches = *limit;
    for (long b = 0;; ++b, ++it) {
      if (!(it != stop)) [[unlikely]]
        throw Error("fulgurite.data.size", "the loader's size() promised " + std::to_string(batches) + " batches, it ended after " +
                                               std::to_string(b) + ": make size() and the loader agree");
      auto&& batch = *it;
      if (!f(batch, b, b + 1 == batches)) return true;
    }
  } else {
    for (long b = 0; it != stop; ++b) {
      auto&& batch = *it;
      bool last = limit && b + 1 == *limit;
      if (!last) {
        ++it;
        last = !(it != stop);
      }
      if (!f(batch, b, last)) return true;
    }
    return false;
  }
}

/// A loader that says it has nothing: an evaluation of it would have no value, and nobody would know why.
template <class Loader>
void check_not_empty(Loader& loader) {
  if (size_of(loader) == 0)
    throw Error("fulgurite.data.empty", "an evaluation loader has no batch: leave it out, or set the limit of its batches to 0");
}

/// f(loader, position) for each loader of a tuple of references.
template <class Loaders, class F>
void each_loader(Loaders& loaders, F&& f) {
  std::apply([&, i = std::size_t{0}](auto&... l) mutable { (f(l, i++), ...); }, loaders);
}

/// The mode switch around an evaluation: the model's own hook, or eval mode with every sub-module's mode restored afterwards.
template <class Kind, class R, class Ctx, class Body>
void in_evaluation_mode(State<R>& run, Ctx& ctx, Body&& body) {
  auto& model = *run.model;
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
  if constexpr (Listens<typename Kind::model_train, Model, Context<R, typename Kind::EndPhase>>) invoke<typename Kind::model_train>(model, after);
}

template <class Kind, class R, class Pack, class Source, class Ctx, class Raw>
Flow evaluation_batch(State<R>& run, Pack& pack, Source& source, Ctx& ctx, Raw&& raw) {
  using Backend = typename R::Backend;
  auto& model = *run.model;
  if (is_none(raw)) return tell<typename Kind::batch_end>(run, pack, ctx);  // left out by its loader: no step
  return with_batch(run, source, ctx, present(std::forward<Raw>(raw)), [&](auto& batch) {
    run.facts.batch_size = Backend::batch_size(batch);
    run.facts.in_batch = true;
    Flow flow = tell<typename Kind::batch_start>(run, pack, batch, ctx);
    auto step = [&]() -> decltype(auto) {
      [[maybe_unused]] auto const scope = Backend::autocast(run.precision, run.strategy.device());
      return call_step<typename Kind::Step>(model, batch, ctx);
    };
    if constexpr (std::is_void_v<decltype(step())>) {
      step();
      NoOutput nothing;
      flow = graver(flow, tell<typename Kind::batch_end>(run, pack, nothing, batch, ctx));
    } else {
      auto&& outputs = step();
      flow = graver(flow, tell<typename Kind::batch_end>(run, pack, outputs, batch, ctx));
    }
    run.facts.in_batch = false;
    run.eval_boards[run.facts.loader].fold();
    return flow;
  });
}

/// Values of an earlier run are no values of the one that begins.
template <class R>
void forget_results(State<R>& run) {
  run.results = {};
  for (auto& results : run.loader_results) results = {};
}

/// Merges the loaders' figures into the run's results: what watching a metric means (the weighted mean over loaders).
template <class R>
void publish(State<R>& run) {
  for (std::size_t i = 0; i != State<R>::metrics; ++i) {
    Figures merged;
    for (auto& board : run.eval_boards) merged.merge(board[i].epoch);
    if (merged.count != 0) run.results[i] = merged;
  }
}

/// A loader's own name (`named<"clean">(loader)`), else its position.
template <class Loader>
std::string loader_name(std::size_t position) {
  if constexpr (requires { Loader::loader_name; }) return std::string(Loader::loader_name);
  else return "dataloader_idx_" + std::to_string(position);
}
/// The names of a tuple of loaders.
template <class... Ls>
std::vector<std::string> loader_names(std::tuple<Ls...> const&) {
  std::size_t position = 0;
  return {loader_name<std::remove_cvref_t<Ls>>(position++)...};
}

/// The whole evaluation. `limit` is per loader; results go to the loggers and into `run.results` unless this is a sanity check.
template <class Kind, class R, class Pack, class Source, class Loaders>
std::vector<std::vector<MetricValue>> evaluate(State<R>& run, Pack& pack, Source& source, Loaders loaders, Limit const& limit,
                                               std::optional<long> most) {
  using Metrics = typename R::Metrics;
  Context<R, typename Kind::Phase> ctx(run);
  auto& facts = run.facts;
  Facts const outside = facts;
  constexpr std::size_t n = std::tuple_size_v<Loaders>;
  constexpr std::size_t outside_loaders = n > 1 ? n : 0;
  run.eval_boards.resize(outside_loaders + 1);
  for (auto& board : run.eval_boards) board.restart();
  std::vector<std::vector<MetricValue>> results(n);
  bool const fresh = source.template is_fresh<typename Kind::Loader>();
  auto const names = loader_names(loaders);
  if (run.loader_names != names) run.loader_results.assign(n, {});
  run.loader_names = names;
  // What tells the values of one of several loaders from the others'.
  auto const suffix = [&](std::size_t loader) { return n > 1 ? "/" + names[loader] : std::string(); };
  facts.validating = true;
  facts.board = outside_loaders;
  Flow flow = Flow::proceed;

  in_evaluation_mode<Kind>(run, ctx, [&] {
    auto const gradients_off = [&] {
      if constexpr (std::is_same_v<Kind, Validation>) return R::Backend::no_grad(run.facts.stage != Stage::fit && run.options.inference_mode);
      else return R::Backend::no_grad(run.options.inference_mode);
    }();
    flow = graver(flow, tell<typename Kind::start>(run, pack, ctx));
    flow = graver(flow, tell<typename Kind::epoch_start>(run, pack, ctx));
    each_loader(loaders, [&](auto& loader, std::size_t position) {
      check_not_empty(loader);
      if (fresh) prepare_loader(run, loader);
      if constexpr (requires { loader.set_epoch(long{}); })
        if (facts.stage == Stage::fit && !facts.sanity_checking) loader.set_epoch(long{run.progress.epoch});
      facts.loader = facts.board = position;
      auto batches = batches_of(loader, limit, Kind::limit);
      if (most) batches = batches ? std::min(*batches, *most) : *most;
      facts.eval_batches = batches;
      each_batch(loader, batches, [&](auto&& raw, long b, bool last) {
        facts.batch_idx = b;
        facts.is_last_batch = last;
        flow = graver(flow, evaluation_batch<Kind>(run, pack, source, ctx, raw));
        if (!facts.sanity_checking) deliver_posted(run, pack, facts.stage == Stage::fit ? run.progress.logged_steps : b);
        if constexpr (has_logger<Pack> && any_per_step<Metrics>(Origin::evaluation)) {
          if (facts.stage != Stage::fit) {
            run.eval_boards[position].collect();
            std::vector<MetricValue> row;
            each_step_value<Metrics>(run.eval_boards[position],
                                     [&](std::string const& name, double v) { row.push_back({name + suffix(position), v}); });
            log_row(run, pack, row, b, false);
          }
        }
        return !last;
      });
    });
    facts.loader = 0;
    facts.board = outside_loaders;
    flow = graver(flow, tell<typename Kind::epoch_end>(run, pack, ctx));
    std::vector<MetricValue> row;
    for (std::size_t l = 0; l != n; ++l) {
      auto& board = run.eval_boards[l];
      board.collect();
      each_epoch_value<Metrics>(board, [&](std::string const& name, double v) { results[l].push_back({name + suffix(l), v}); });
      row.insert(row.end(), results[l].begin(), results[l].end());
    }
    if constexpr (n > 1) {  // what was logged outside of the loaders belongs to each of them
      run.eval_boards[n].collect();
      each_epoch_value<Metrics>(run.eval_boards[n], [&](std::string const& name, double v) {
        for (auto& result : results) result.push_back({name, v});
        row.push_back({name, v});
      });
    }
    if (!facts.sanity_checking) {
      publish(run);
      for (std::size_t l = 0; l != n; ++l)
        for (std::size_t i = 0; i != State<R>::metrics; ++i) run.loader_results[l][i] = run.eval_boards[l][i].epoch;
    }
    facts.validating = false;
    if constexpr (has_logger<Pack>)
      if (!facts.sanity_checking) log_row(run, pack, row, run.progress.logged_steps);
    Context<R, typename Kind::EndPhase> after(run);
    flow = graver(flow, tell<typename Kind::end>(run, pack, after));
  });
  if (flow == Flow::stop && !outside.sanity_checking) run.stop_requested = true;
  for (auto& board : run.eval_boards) board.restart();
  facts = outside;
  return results;
}

}  // namespace fulgurite::loop
