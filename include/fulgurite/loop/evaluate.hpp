#pragma once
// One pass over evaluation loaders: validation inside fit, validate, test.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// True for the pack of a trial run, whose only callback has `ends_pass()`: the pass may end before the loaders do.
template <class Pack>
inline constexpr bool tries_pass_out = false;

/// True if no more batches of any loader follow.
template <class Callbacks>
bool ends_pass([[maybe_unused]] Callbacks& pack) {
  bool ends = false;
  if constexpr (tries_pass_out<Callbacks>) pack.each([&](auto& callback) { ends = callback.ends_pass(); });
  return ends;
}

/// Gives the program its loaders back at the end of a call: with the samples of all ranks, for whoever reads them next.
template <class R, class Source, class Hook>
class SharedOut : Pinned {
 public:
  SharedOut(State<R>& run, Source& source) : run_(run), source_(source) {}
  ~SharedOut() { give_back(); }
  void give_back() {
    if constexpr (shares<R>) {
      if (std::exchange(given_back_, true) || !run_.asked.options.use_distributed_sampler) return;
      if constexpr (Source::trains)
        if (!source_.is_train_fresh()) make_whole(source_.train(), true);
      if constexpr (Source::template evaluates<Hook>)
        if (!source_.template is_fresh<Hook>()) {
          auto loaders = source_.template evaluation<Hook>();
          each_of(loaders, [](auto& loader) { make_whole(loader, false); });
        }
    }
  }

 private:
  template <class Loader>
  static void make_whole(Loader& loader, bool training) noexcept {
    if constexpr (shares_out<R, Loader>) {
      try {
        shard_of(loader, 0, 1, training);
      } catch (std::exception const&) {
        // After a failed resume the loader may still wait for the rest of an epoch, of this rank's samples alone.
      }
    }
  }

  State<R>& run_;
  Source& source_;
  bool given_back_ = false;
};

// What distinguishes validation, test and predict: their hooks, their step, their phase.

/// The hooks and the step of one kind of evaluation, its stage and its limit.
#define FULGURITE_EVALUATION(NAME, LOADER, STAGE)                                                                      \
  using Step = hook::NAME##_step;                                                                                      \
  using Loader = hook::LOADER##_dataloader;                                                                            \
  using start = hook::on_##NAME##_start;                                                                               \
  using end = hook::on_##NAME##_end;                                                                                   \
  using epoch_start = hook::on_##NAME##_epoch_start;                                                                   \
  using epoch_end = hook::on_##NAME##_epoch_end;                                                                       \
  using batch_start = hook::on_##NAME##_batch_start;                                                                   \
  using batch_end = hook::on_##NAME##_batch_end;                                                                       \
  using model_eval = hook::on_##NAME##_model_eval;                                                                     \
  static constexpr Stage stage = Stage::STAGE;                                                                         \
  static constexpr char const* limit = "limit_" #LOADER "_batches";                                                    \
  static constexpr auto limit_of = &TrainerOptions::limit_##LOADER##_batches;
struct Validation {
  using Phase = phase::Validate;
  using EndPhase = phase::ValidateEnd;
  FULGURITE_EVALUATION(validation, val, validate)
  using model_train = hook::on_validation_model_train;
};
struct Testing {
  using Phase = phase::Test;
  using EndPhase = phase::TestEnd;
  FULGURITE_EVALUATION(test, test, test)
  using model_train = hook::on_test_model_train;
};
struct Prediction {
  using Phase = phase::Predict;
  using EndPhase = phase::Predict;
  FULGURITE_EVALUATION(predict, predict, predict)
  struct model_train : hook::on_predict_model_eval {  // predict has no such hook: modes are always restored
    template <class T>
    static constexpr bool named = false;
  };
};
#undef FULGURITE_EVALUATION

// Metrics with a definition in an evaluation: from updates to values, which are then treated like logged ones.

/// Resets boards and counts at the start and at the end of an evaluation, and frees their memory.
template <class R>
void restart_boards(State<R>& run) {
  for (auto& board : run.measured.eval_boards) board.restart();
  std::ranges::fill(run.values.counted, Figures{});
  if constexpr (State<R>::Board::Counts::any_several) run.values.several.assign(run.measured.eval_boards.size(), {});
}

/// The value of a metric. In a sanity check nullopt if its few batches are too few for one: there that is no error.
template <class R, class Meter>
auto evaluated_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  try {
    return counted_value(run, meter);
  } catch (Error const& error) {
    if (run.facts.sanity_checking && is_too_few(error)) return std::nullopt;
    throw;
  }
}

/// After the batches: computes a value for each loader's board, and one over all loaders' samples. A collective.
template <class R>
void settle_meters(State<R>& run) {
  using Counts = typename State<R>::Board::Counts;
  if constexpr (Counts::any) {
    Counts merged;
    for (std::size_t b = 0; b != run.measured.eval_boards.size(); ++b) {
      auto& board = run.measured.eval_boards[b];
      board.fold();
      merged.merge(board.counts);
      board.counts.each([&](auto at, auto& meter) {
        using M = typename Counts::template Declared<at>;
        auto const value = evaluated_value(run, meter);
        if (!value) return;
        if constexpr (metric::counts_several<M>)
          meter.definition().each(*value, [&](std::string_view name, double number) {
            run.values.several[b].push_back({(std::string(M::name()) += '.') += name, number});
          });
        else board.settle_count(at, *value, Origin::evaluation);
      });
    }
    merged.each([&](auto at, auto& meter) {
      if constexpr (metric::counts_several<typename Counts::template Declared<at>>) return;
      else if (auto const value = evaluated_value(run, meter)) run.values.counted[at].add(*value, 1);
    });
  }
}

/// True if the loader has `static constexpr std::string_view loader_name`. A data member of that name does not count.
template <class Loader>
concept NamedLoader = FULGURITE_SAYS_TEXT(Loader, loader_name);

/// A loader's own name (`named<"clean">(loader)`), or else its position.
template <class Loader>
std::string loader_name(std::size_t position) {
  if constexpr (NamedLoader<Loader>) return std::string(Loader::loader_name);
  else return loop::loader_at(position);
}
/// The names of a tuple of loaders.
template <class... Ls>
std::vector<std::string> loader_names(std::tuple<Ls...> const&) {
  std::size_t position = 0;
  return {loader_name<std::remove_cvref_t<Ls>>(position++)...};
}

// Common parts of all evaluations: the mode switch around it, and one batch.

/// Throws [fulgurite.data.empty] for a loader that says it has no batches: its evaluation would have no values, for no
/// visible reason. Where ranks share its batches out, one may have no part of a small loader: they ask each other if
/// `together`.
template <class R, class Loader>
void check_not_empty(State<R>& run, Loader& loader, bool together) {
  bool const none = size_of(loader) == 0;
  if (shares_of_data(run) == 1 ? none : together && !any_rank(run, !none)) {
    if constexpr (shares<R>) run.shared.together = together;
    throw Error("fulgurite.data.empty",
                "an evaluation loader has no batch: leave it out, or set the limit of its batches to 0");
  }
}

/// The mode switch around an evaluation: the model's own hook, or eval mode, after which all modes are restored.
template <class Kind, class R, class Ctx, class Body>
void in_evaluation_mode(State<R>& run, Ctx& ctx, Body&& body) {
  auto& model = *run.parts.model;
  using Model = typename R::Model;
  [[maybe_unused]] KeepsModes const kept(run);
  if constexpr (Listens<typename Kind::model_eval, Model, Ctx>) {
    [[maybe_unused]] auto const modes = R::Backend::evaluating(model, false);
    invoke<typename Kind::model_eval>(model, ctx);
    body();
  } else {
    [[maybe_unused]] auto const modes = R::Backend::evaluating(model);
    body();
  }
  RunContext<R, typename Kind::EndPhase> after(run);
  if constexpr (Listens<typename Kind::model_train, Model, RunContext<R, typename Kind::EndPhase>>)
    invoke<typename Kind::model_train>(model, after);
}

/// Runs the step of an evaluation and the end hooks of its batch, with outputs on the process that has them.
template <class Hook, class R, class Pack, class Ctx, class Batch, class Step>
Flow split_evaluation(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, Step&& step) {
  auto& strategy = run.parts.strategy;
  if constexpr (std::is_void_v<decltype(step())>) {
    NoOutput nothing;
    if (strategy.evaluate(batch, step)) return notify<Hook>(run, pack, nothing, batch, ctx);
  } else {
    std::optional<std::remove_cvref_t<decltype(step())>> outputs;
    if (strategy.evaluate(batch, [&] { outputs.emplace(step()); }))
      return notify<Hook>(run, pack, *outputs, batch, ctx);
  }
  return notify<Hook>(run, pack, batch, ctx);
}

/// The step of an evaluation, in the precision and with the products that the run has.
template <class Kind, class R, class Pack, class Batch, class Ctx>
decltype(auto) evaluation_step(State<R>& run, Pack& pack, Batch& batch, Ctx& ctx) {
  [[maybe_unused]] auto const watched = pack.template profile<action::evaluation_step<R, typename Kind::Step>>();
  [[maybe_unused]] auto const scope = R::Backend::autocast(run.parts.precision, run.parts.strategy.device());
  [[maybe_unused]] auto const products = products_scope(run);
  return call_step<typename Kind::Step>(*run.parts.model, batch, ctx);
}

/// Evaluates one batch. `keep(outputs)` gets what predict_step returned.
template <class Kind, class R, class Pack, class Source, class Ctx, class Raw, class Keep>
Flow evaluation_batch(State<R>& run, Pack& pack, Source& source, Ctx& ctx, Raw&& raw, [[maybe_unused]] Keep&& keep) {
  if (is_none(raw)) return notify<typename Kind::batch_end>(run, pack, ctx);  // left out by its loader: no step
  return with_batch(
      run, source, ctx, present(std::forward<Raw>(raw)),
      [&](auto& batch) {
        measure(run, batch);
        run.facts.in_batch = true;
        Flow flow = notify<typename Kind::batch_start>(run, pack, batch, ctx);
        auto step = [&]() -> decltype(auto) { return evaluation_step<Kind>(run, pack, batch, ctx); };
        if constexpr (splits_model<R>) {
          flow = more_severe(flow, split_evaluation<typename Kind::batch_end>(run, pack, ctx, batch, step));
        } else if constexpr (std::is_same_v<Kind, Prediction>) {
          std::remove_cvref_t<decltype(step())> outputs(step());
          flow = more_severe(flow, notify<typename Kind::batch_end>(run, pack, outputs, batch, ctx));
          keep(outputs);
        } else if constexpr (std::is_void_v<decltype(step())>) {
          step();
          NoOutput nothing;
          flow = more_severe(flow, notify<typename Kind::batch_end>(run, pack, nothing, batch, ctx));
        } else {
          auto&& outputs = step();
          flow = more_severe(flow, notify<typename Kind::batch_end>(run, pack, outputs, batch, ctx));
        }
        run.facts.in_batch = false;
        if constexpr (Kind::Phase::logs) run.measured.eval_boards[run.facts.loader].fold();
        return flow;
      },
      hook::timed<action::batch_to_device<R>>(pack));
}

[[noreturn]] inline void refuse_empty_pass() {
  throw Error("fulgurite.data.empty",
              "an evaluation loader without size() had no batch: begin() must start a new pass each time; leave the "
              "loader out, or set the limit of its batches to 0, if nothing is to be evaluated");
}

/// Calls use(batch, index) for the batches of each loader, up to the option's limit and `most` of them.
template <class Kind, class R, class Pack, class Loaders, class Use>
void each_evaluation_batch(State<R>& run, Pack& pack, Loaders& loaders, std::optional<long> most, Use&& use) {
  auto& facts = run.facts;
  each_loader(loaders, [&](auto& loader, std::size_t position) {
    if (ends_pass(pack)) return;
    check_not_empty(run, loader, facts.stage != Stage::fit && !run.searching.rehearsing);
    if (facts.stage == Stage::fit && !facts.sanity_checking) notify_epoch(loader, run.progress.epoch);
    facts.loader = position;
    auto batches = batches_of(loader, run.asked.options.*Kind::limit_of, Kind::limit);
    if (most) batches = batches ? std::min(*batches, *most) : *most;
    facts.eval_batches = batches;
    if constexpr (std::is_same_v<Kind, Prediction>) {
      facts.first_sample = place_in_loader(loader, 0);
      facts.sample_step = place_in_loader(loader, 1) - facts.first_sample;
    }
    bool const any = each_batch(
        loader, batches,
        [&](auto&& raw, long b, auto&& end) {
          facts.batch_idx = b;
          facts.is_last_batch = end.before_step();
          use(raw, b);
          facts.is_last_batch = end.after_step();
          return !facts.is_last_batch && !ends_pass(pack);
        },
        hook::timed<action::EvaluationNext<typename Kind::Step>>(pack));
    if (shares_of_data(run) == 1 && !any && batches != 0) refuse_empty_pass();
  });
  facts.loader = 0;
}

/// Runs the whole evaluation. Results go to the loggers and into `run.values`, unless this is a sanity check.
template <class Kind, class R, class Pack, class Source, class Loaders>
std::vector<std::vector<MetricValue>> evaluate(State<R>& run, Pack& pack, Source& source, Loaders loaders,
                                               std::optional<long> most = std::nullopt) {
  RunContext<R, typename Kind::Phase> ctx(run);
  auto& facts = run.facts;
  Facts const outside = facts;
  bool const ends_training = facts.stage == Stage::fit && !facts.sanity_checking;  // where a hook returns Stop
  constexpr std::size_t n = std::tuple_size_v<Loaders>;
  constexpr std::size_t outside_loaders = n > 1 ? n : 0;
  run.measured.eval_boards.resize(outside_loaders + 1);
  restart_boards(run);
  std::vector<std::vector<MetricValue>> results(n);
  auto const names = loader_names(loaders);
  if (run.loader_names != names) run.values.loader_results.assign(n, AllFigures(run.values.results.size()));
  run.loader_names = names;
  // The suffix that distinguishes the values of several loaders.
  auto const suffix = [&](std::size_t loader) { return n > 1 ? "/" + names[loader] : std::string(); };
  facts.validating = true;
  facts.board = outside_loaders;
  Flow flow = Flow::proceed;

  in_evaluation_mode<Kind>(run, ctx, [&] {
    bool const inference = run.facts.stage != Stage::fit && run.asked.options.inference_mode;
    [[maybe_unused]] auto const gradients_off = R::Backend::no_grad(inference);
    flow = more_severe(flow, notify<typename Kind::start>(run, pack, ctx));
    flow = more_severe(flow, notify<typename Kind::epoch_start>(run, pack, ctx));
    each_evaluation_batch<Kind>(run, pack, loaders, most, [&](auto&& raw, long b) {
      auto const loader = facts.board = facts.loader;
      flow = more_severe(flow, evaluation_batch<Kind>(run, pack, source, ctx, raw, [](auto&) {}));
      if (!facts.sanity_checking) deliver_posted(run, pack, facts.stage == Stage::fit ? run.progress.logged_steps : b);
      if constexpr (has_logger<Pack> && any_per_step<typename R::Metrics>(Origin::evaluation))
        if (facts.stage != Stage::fit) {
          run.measured.eval_boards[loader].collect();
          log_row(run, named(step_row(run, loader), suffix(loader)), b, false);
        }
    });
    facts.board = outside_loaders;
    settle_meters(run);
    flow = more_severe(flow, notify<typename Kind::epoch_end>(run, pack, ctx));
    share_evaluation(run);
    std::vector<MetricValue> row;
    for (std::size_t l = 0; l != n; ++l) {
      run.measured.eval_boards[l].collect();
      results[l] = named(epoch_row(run, l), suffix(l));
      if constexpr (State<R>::Board::Counts::any_several) append(results[l], named(run.values.several[l], suffix(l)));
      append(row, results[l]);
    }
    if constexpr (n > 1) {  // values logged outside of loaders belong to each loader
      run.measured.eval_boards[n].collect();
      auto const beside = epoch_row(run, n);
      for (auto& result : results) append(result, beside);
      append(row, beside);
    }
    if (!facts.sanity_checking) publish_evaluation(run);
    facts.validating = false;
    if constexpr (has_logger<Pack>)
      if (!facts.sanity_checking) log_row(run, row, run.progress.logged_steps);
    if (flow == Flow::stop && ends_training) request_stop(run);  // kept if the next event fails
    RunContext<R, typename Kind::EndPhase> after(run);
    flow = more_severe(flow, notify<typename Kind::end>(run, pack, after));
    if (facts.stage != Stage::fit) deliver_posted(run, pack, run.progress.logged_steps);
  });
  if (flow == Flow::stop && ends_training) request_stop(run);
  restart_boards(run);
  facts = outside;
  return results;
}

// The validation of a fit.

/// Finishes a validation in which on_validation_end failed: notifies the listeners that were not notified.
template <class R, class Pack>
[[gnu::noinline, gnu::cold]] void end_validation(State<R>& run, Pack& pack) {
  RunContext<R, phase::Validate> ctx(run);
  Flow flow = Flow::proceed;
  in_evaluation_mode<Validation>(run, ctx, [&] {
    RunContext<R, phase::ValidateEnd> after(run);
    flow = notify_remaining<hook::on_validation_end>(run, pack, after);
  });
  if (flow == Flow::stop) request_stop(run);
}

/// Keeps the state at the start of the validation that follows.
template <class R, class Source>
void keep_before_validation(State<R>& run, Source& source) {
  run.before_validation.reset();  // otherwise its parts would be saved in place of the current ones
  BeforeValidation before(run);
  before.parts.save([&](auto& archive) {
    if constexpr (Stateful<typename R::Model, StateSaver> && !splits_model<R>) archive.child("model", *run.parts.model);
    fold_data_module<R>(source, archive);
    fold_validation_loaders(run, source, archive);
    fold_results(run, archive);
    fold_random(run, archive);
  });
  before.keep_callbacks(run.callbacks);
  run.before_validation.emplace(std::move(before));
}

/// Validates after the batch at `place`, with all that surrounds it. If that fails, run.point stays there, so that the
/// validation is repeated. Not inlined, since code that writes files is no part of the hot loop.
template <class R, class Pack, class Source>
[[gnu::noinline]] void validate_in_fit(State<R>& run, Pack& pack, Source& source, SafePoint const& place) {
  [[maybe_unused]] auto const watched = pack.template profile<action::run_validation>();
  auto const before = std::exchange(run.point, place);
  RunContext<R, phase::ValidateEnd> ctx(run);
  run.due.set_aside();
  if (run.due.notified.template failed<hook::on_validation_end>()) [[unlikely]] {
    end_validation(run, pack);
  } else {
    keep_before_validation(run, source);
    if (!run.facts.accumulating) notify_one<hook::on_validation_model_zero_grad>(*run.parts.model, ctx);
    int const every = run.asked.options.reload_dataloaders_every_n_epochs;
    if (every != 0 && run.progress.epoch - run.loading.validation_since >= every) {
      if constexpr (requires { source.reload_validation(); }) source.reload_validation();
      run.loading.validation_since = run.progress.epoch;
    }
    evaluate<Validation>(run, pack, source, evaluation_loaders<hook::val_dataloader>(run, source));
  }
  if (run.asked.options.val_check_interval.kind == ValidationInterval::Kind::time)
    run.clock.last_validation = run.asked.options.now();
  deliver_posted(run, pack, run.progress.logged_steps);
  // Files must have the weights that validation has scored, so they are written at once, also inside a window.
  run.point = place;
  run.point.at = At::after_validation;
  run.point.validates = false;
  run.before_validation.reset();
  if (!run.due.requests.empty()) write_now(run, source);
  run.due.take_back();
  agree_on_stop(run);
  run.point = before;
}

/// A few validation batches before training, so that mistakes show at once. Nothing of them is kept, including random
/// numbers. Requests that hooks made before wait until the check is over.
template <class R, class Pack, class Source>
void sanity_check(State<R>& run, Pack& pack, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    int const batches = run.asked.options.num_sanity_val_steps;
    bool const inside = run.progress.batch != 0 || (run.point.began && run.point.at < At::epoch_end);
    if (batches == 0 || !run.facts.has_validation || inside) return;
    [[maybe_unused]] auto const generators = R::Backend::isolated_rng();
    RunContext<R, phase::Fit> ctx(run);
    run.facts.sanity_checking = true;
    run.loading.validation_since =
        validates_in(run.asked.options, run.progress.epoch) ? run.progress.epoch : never_loaded;
    auto const stop = run.due.stop;
    run.due.set_aside();
    auto posted = std::exchange(run.due.posted, {});
    notify<hook::on_sanity_check_start>(run, pack, ctx);
    evaluate<Validation>(run, pack, source, evaluation_loaders<hook::val_dataloader>(run, source),
                         batches < 0 ? std::nullopt : std::optional<long>(batches));
    notify<hook::on_sanity_check_end>(run, pack, ctx);
    run.facts.sanity_checking = false;
    run.due.stop = stop;  // nothing of a sanity check is kept
    run.due.requests.clear();
    run.due.take_back();
    run.due.posted = std::move(posted);
  }
}

/// The result of predict_step for a batch of a loader.
template <class R, class Batch>
using Predicted = std::remove_cvref_t<decltype(call_step<hook::predict_step>(
    std::declval<typename R::Model&>(), std::declval<Batch&>(), std::declval<RunContext<R, phase::Predict>&>()))>;

/// Returns the predictions of each loader; the lists are empty unless `keep`. `T`: what predict_step returns.
template <class T, class R, class Pack, class Source, class Loaders>
std::vector<std::vector<T>> predict(State<R>& run, Pack& pack, Source& source, Loaders loaders, bool keep) {
  RunContext<R, phase::Predict> ctx(run);
  Facts const outside = run.facts;
  std::vector<std::vector<T>> all(std::tuple_size_v<Loaders>);
  run.predict_names = loader_names(loaders);
  in_evaluation_mode<Prediction>(run, ctx, [&] {
    [[maybe_unused]] auto const gradients_off = R::Backend::no_grad(run.asked.options.inference_mode);
    notify<hook::on_predict_start>(run, pack, ctx);
    notify<hook::on_predict_epoch_start>(run, pack, ctx);
    each_evaluation_batch<Prediction>(run, pack, loaders, std::nullopt, [&](auto&& raw, long b) {
      evaluation_batch<Prediction>(run, pack, source, ctx, raw, [&](auto& outputs) {
        if (keep) all[run.facts.loader].push_back(T(std::move(outputs)));
      });
      deliver_posted(run, pack, b);
    });
    notify<hook::on_predict_epoch_end>(run, pack, ctx);
    notify<hook::on_predict_end>(run, pack, ctx);
    deliver_posted(run, pack, run.progress.logged_steps);
  });
  run.facts = outside;
  return all;
}

}  // namespace fulgurite::loop
