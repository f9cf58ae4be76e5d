#pragma once
// Training: the frame of fit, the sanity check, one epoch after another.

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/log_hyperparameters.hpp>
#include <fulgurite/loop/special_run.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::loop {

/// A few validation batches before training, so that a mistake there shows at once. Nothing of it is kept, random numbers included.
template <class R, class Pack, class Source>
void sanity_check(State<R>& run, Pack& pack, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    int const batches = run.options.num_sanity_val_steps;
    if (batches == 0 || !run.facts.has_validation || run.progress.batch != 0) return;
    [[maybe_unused]] auto const generators = R::Backend::isolated_rng();
    Context<R, phase::Fit> ctx(run);
    run.facts.sanity_checking = true;
    run.val_loaded_in = validates_in(run.options, run.progress.epoch) ? run.progress.epoch : never_loaded;
    bool const asked = run.stop_requested;
    tell<hook::on_sanity_check_start>(run, pack, ctx);
    evaluate<Validation>(run, pack, source, source.template evaluation<hook::val_dataloader>(), run.options.limit_val_batches,
                         batches < 0 ? std::nullopt : std::optional<long>(batches));
    tell<hook::on_sanity_check_end>(run, pack, ctx);
    run.facts.sanity_checking = false;
    run.stop_requested = asked;  // nothing of a sanity check is kept
    run.requests.clear();
    run.posted.clear();
  }
}

/// The epoch's values become results, then rows; x is the last step's.
template <class R, class Pack>
void report_epoch(State<R>& run, Pack& pack) {
  run.train_board.collect();
  for (std::size_t i = 0; i != State<R>::metrics; ++i)
    if (run.train_board[i].epoch.count != 0) run.results[i] = run.train_board[i].epoch;
  if constexpr (has_logger<Pack>) {
    std::vector<MetricValue> row;
    each_epoch_value<typename R::Metrics>(run.train_board, [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    log_row(run, pack, row, last_step(run));
  }
}

/// The training loader, as the options want it, and the shape that it gives an epoch.
template <class R, class Source>
EpochPlan plan_training(State<R>& run, Source& source) {
  auto& loader = source.train();
  if (source.is_train_fresh()) prepare_loader(run, loader);
  auto const taken = batches_of(loader, run.options.limit_train_batches, "limit_train_batches");
  auto const size = size_of(loader);
  auto const plan = plan_epoch(run.options, size, taken, run.facts.has_validation);
  run.facts.train_batches = plan.most();
  if (size == 0)
    throw Error("fulgurite.data.empty", "the training loader has no batch (is drop_last set, with a batch larger than the data?): "
                                        "limit_train_batches = 0 is how to say that nothing is trained");
  return plan;
}

/// reload_dataloaders_every_n_epochs: the training loader is asked for anew when so many epochs have gone by.
template <class R, class Source>
void reload_if_due(State<R>& run, Source& source, EpochPlan& plan) {
  int const every = run.options.reload_dataloaders_every_n_epochs;
  if (every == 0 || run.progress.epoch - run.train_loaded_in < every) return;
  if constexpr (requires { source.reload_training(); }) source.reload_training();
  run.train_loaded_in = run.progress.epoch;
  plan = plan_training(run, source);
}

/// What asked for the pass puts its weights into the model first: `before_statistics_pass(ctx)`.
template <class R, class Pack>
void prepare_statistics(State<R>& run, Pack& pack) {
  Context<R, phase::Train> ctx(run);
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.before_statistics_pass(ctx); }) callback.before_statistics_pass(ctx);
  });
}

/// The training data once more, through training_step alone: no gradients, no update, no hook but those of the transfer, nothing logged. BatchNorm takes its
/// statistics from it.
template <class R, class Source>
void statistics_pass(State<R>& run, Source& source, EpochPlan const& plan) {
  using Backend = typename R::Backend;
  Context<R, phase::Train> ctx(run);
  auto const outside = run.facts;
  auto& model = *run.model;
  if constexpr (R::automatic) {
    [[maybe_unused]] auto const gradients_off = Backend::no_grad(false);
    [[maybe_unused]] auto const generators = Backend::isolated_rng();
    each_batch(source.train(), plan.most(), [&](auto&& raw, long b, bool last) {
      run.facts.batch_idx = b;
      run.facts.is_last_batch = last;
      if (is_none(raw)) return !last;
      return with_batch(run, source, ctx, present(raw), [&](auto& batch) {
        run.facts.in_batch = true;  // training_step logs as it does in a step
        run.facts.batch_size = Backend::batch_size(batch);
        [[maybe_unused]] auto const scope = Backend::autocast(run.precision, run.strategy.device());
        if constexpr (Recurrent<typename R::Model>) {
          run.hidden.reset();
          for (auto& slice : time_slices<R>(model, batch, run.optimization.tbptt, ctx)) {
            auto const output = call_training_step(model, slice, run.hidden, ctx);
            if constexpr (!is_optional<std::remove_cvref_t<decltype(output)>>) run.hidden.emplace(Backend::detached_state(output.hidden));
            else if (output) run.hidden.emplace(Backend::detached_state(output->hidden));
          }
        } else {
          call_training_step(model, batch, run.hidden, ctx);
        }
        run.train_board.restart();
        return !last;
      });
    });
  }
  run.facts = outside;
}

template <class R, class Pack, class Source, class Loader>
void train_one_epoch(State<R>& run, Pack& pack, Source& source, Loader& loader, EpochPlan const& plan) {
  Context<R, phase::Train> ctx(run);
  run.facts.is_last_batch = false;
  if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{run.progress.epoch});
  run.progress.at = At::before_batch;
  if (tell<hook::on_train_epoch_start>(run, pack, ctx) == Flow::stop) run.stop_requested = true;
  deliver_posted(run, pack, run.progress.logged_steps);
  if (!stops(run)) TrainEpoch<R, Pack, Source>(run, pack, source, plan).batches(run, loader);
  if (tell<hook::on_train_epoch_end>(run, pack, ctx) == Flow::stop) run.stop_requested = true;
  deliver_posted(run, pack, last_step(run));
  if constexpr (R::automatic)
    if (run.facts.is_last_batch) observe_schedulers(run, ctx, Interval::epoch);
  report_epoch(run, pack);
  ++run.progress.epoch;
  run.progress.batch = 0;
  run.progress.at = At::after_epoch;
  run.facts.accumulating = false;
  write_requests(run, pack);
  run.train_board.restart();
}

/// Asks for the validation loaders now, so that a limit which does not fit them is known before training.
template <class R, class Source>
void check_validation(State<R>& run, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    if (!run.facts.has_validation) return;
    if (run.options.num_sanity_val_steps == 0)
      run.val_loaded_in = validates_in(run.options, run.progress.epoch) ? run.progress.epoch : never_loaded;
    auto loaders = source.template evaluation<hook::val_dataloader>();
    each_loader(loaders, [&](auto& loader, std::size_t) { check_not_empty(loader); batches_of(loader, run.options.limit_val_batches, Validation::limit); });
  }
}

/// Everything between setup and teardown.
template <class R, class Pack, class Source>
void train(State<R>& run, Pack& pack, Source& source) {
  Context<R, phase::Train> ctx(run);
  sanity_check(run, pack, source);
  if (run.options.limit_train_batches.none() || done(run)) return;
  run.train_loaded_in = run.progress.epoch;
  auto plan = plan_training(run, source);
  check_validation(run, source);
  if (has_logger<Pack> && plan.batches && run.options.log_every_n_steps > (*plan.batches + run.window - 1) / run.window && run.options.fast_dev_run == 0)
    run.warn("fulgurite.options.few_rows", "the steps of an epoch (" + std::to_string((*plan.batches + run.window - 1) / run.window) + ") are fewer than "
                                           "log_every_n_steps = " + std::to_string(run.options.log_every_n_steps) +
                                               ": lower it to see the values of steps");
  run.train_board.restart();
  if (tell<hook::on_train_start>(run, pack, ctx) == Flow::stop) run.stop_requested = true;
  if (run.options.val_check_interval.kind == ValidationInterval::Kind::time) run.last_validation = run.options.now();
  while (!done(run)) {
    reload_if_due(run, source, plan);
    train_one_epoch(run, pack, source, source.train(), plan);
  }
  if (std::exchange(run.statistics_requested, false)) {
    prepare_statistics(run, pack);
    statistics_pass(run, source, plan);
  }
  Context<R, phase::TrainEnd> after(run);
  tell<hook::on_train_end>(run, pack, after);
  deliver_posted(run, pack, last_step(run));
  write_requests(run, pack);
}

/// The options of automatic optimization against the model, the strategy and the optimizer.
template <class R>
void check_optimization(State<R>& run) {
  if constexpr (R::automatic) {
    using M = typename R::Model;
    int const k = run.optimization.accumulate_grad_batches;
    check_window<R>("accumulate_grad_batches", k);
    check_slices<M>(run.optimization.tbptt, k);
    using O = std::tuple_element_t<0, decltype(Optimizers<R>::optimizers)>;
    check_clip<R, O>(run.optimization.clip);
    if (k > 1 && (hook::optimizer_step::named<M> || hook::optimizer_zero_grad::named<M>))
      run.warn("fulgurite.hook.once_a_window", "the model has an optimizer_step or optimizer_zero_grad of its own: with accumulate_grad_batches = " +
                                                   std::to_string(k) + " it is called once a window, not for every batch");
    run.window = k;
  }
}

/// max_time beside a Timer that has a limit: which of them would count?
template <class R, class Pack>
void check_timers(State<R>& run, Pack& pack) {
  if (!run.options.max_time) return;
  pack.each([](auto& callback) {
    if constexpr (requires { callback.limits_time(); })
      if (callback.limits_time())
        throw Error("fulgurite.options.two_timers", "max_time and a Timer with a limit both end the run: leave one of them out");
  });
}

template <class R, class Pack, class Source>
void fit(State<R>& run, Pack& pack, Source& source) {
  check_end(run.options);
  check_optimization(run);
  check_timers(run, pack);
  check_special(run, pack);
  if (run.options.barebones && observes_any<R>)
    throw Error("fulgurite.options.barebones", "barebones keeps no metric, and a schedule follows one: leave one of them out");
  if (run.options.reload_dataloaders_every_n_epochs != 0 && !requires { source.reload_training(); })
    throw Error("fulgurite.options.reload", "reload_dataloaders_every_n_epochs = " + std::to_string(run.options.reload_dataloaders_every_n_epochs) +
                                                " asks for new loaders, and fit was given some: pass a data module, which can make them again");
  run.facts = {};
  run.facts.stage = Stage::fit;
  run.facts.has_validation = Source::template evaluates<hook::val_dataloader> && !run.options.limit_val_batches.none();
  run.stop_requested = run.statistics_requested = false;
  run.manual_watch = {};
  run.optimizers.reset();
  forget_results(run);
  run.requests.clear();
  run.posted.clear();
  Context<R, phase::Fit> ctx(run);
  framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx);
    run.count_training = [&] { return batches_of(source.train(), run.options.limit_train_batches, "limit_train_batches"); };
    run.optimizers.emplace(AsList<std::remove_cvref_t<decltype(configure_optimizers<R>(*run.model, ctx))>>::make(
        configure_optimizers<R>(*run.model, ctx)));
    if constexpr (R::Precision::scales_loss) run.scaler.emplace(run.precision, run.strategy.device());
    auto const every = static_cast<std::size_t>(run.options.log_every_n_steps) * static_cast<std::size_t>(run.window);
    run.train_board.reserve(every == 0 ? State<R>::Board::most_waiting : every);
    run.fit_began = run.options.now();
    if (tell<hook::on_fit_start>(run, pack, ctx) == Flow::stop) run.stop_requested = true;
    log_hyperparameters(run, pack, source);
    check_time(run);
    {
      [[maybe_unused]] auto const anomaly = R::Backend::anomaly(run.options.detect_anomaly);
      train(run, pack, source);
    }
    run.count_training = nullptr;
    run.strategy.teardown(*run.model);
    tell<hook::on_fit_end>(run, pack, ctx);
    write_requests(run, pack);
    tell_all<hook::teardown>(run, pack, source, ctx);
    write_requests(run, pack);
    finalize_loggers(pack, Status::success);
  });
}

/// validate or test: the frame and one evaluation. Results: one list of values for each loader.
template <class Kind, class R, class Pack, class Source>
std::vector<std::vector<MetricValue>> run_evaluation(State<R>& run, Pack& pack, Source& source, Stage stage, Limit const& limit) {
  check_special(run, pack);
  run.facts = {};
  run.facts.stage = stage;
  forget_results(run);
  Context<R, typename Kind::Phase> ctx(run);
  return framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx);
    auto results = limit.none() ? std::vector<std::vector<MetricValue>>{}
                                : evaluate<Kind>(run, pack, source, source.template evaluation<typename Kind::Loader>(), limit, std::nullopt);
    run.strategy.teardown(*run.model);
    tell_all<hook::teardown>(run, pack, source, ctx);
    finalize_loggers(pack, Status::success);
    return results;
  });
}

}  // namespace fulgurite::loop
