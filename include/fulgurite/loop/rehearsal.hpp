#pragma once
// Trial runs: steps of the real trainer, between two epochs, after which its state is restored.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::loop {

// The inputs of training: its loader, the shape of its epochs, and a check that validation's loaders fit their limits.

/// Prepares the training loader, and plans the epochs that it gives.
template <class R, class Source>
EpochPlan plan_training(State<R>& run, Source& source) {
  auto& loader = training_loader(run, source);
  auto const mine = batches_of(loader, run.asked.options.limit_train_batches, "limit_train_batches");
  return plan_training(run, fewest_batches(run, {.taken = mine, .size = size_of(loader)}));
}

/// reload_dataloaders_every_n_epochs: requests the training loader again after that many epochs.
template <class R, class Source>
void reload_if_due(State<R>& run, Source& source, EpochPlan& plan) {
  int const every = run.asked.options.reload_dataloaders_every_n_epochs;
  if (every == 0 || run.progress.epoch - run.loading.training_since < every) return;
  if constexpr (requires { source.reload_training(); }) source.reload_training();
  run.loading.training_since = run.progress.epoch;
  plan = plan_training(run, source);
}

/// Requests the validation loaders now, so that a limit that does not fit them is found before training.
template <class R, class Source>
void check_validation(State<R>& run, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    if (!run.facts.has_validation) return;
    if (run.asked.options.num_sanity_val_steps == 0)
      run.loading.validation_since =
          validates_in(run.asked.options, run.progress.epoch) ? run.progress.epoch : never_loaded;
    auto loaders = evaluation_loaders<hook::val_dataloader>(run, source);
    run.loading.validation_is_open = true;
    each_loader(loaders, [&](auto& loader, std::size_t) {
      check_not_empty(run, loader, true);
      batches_of(loader, run.asked.options.*Validation::limit_of, Validation::limit);
    });
  }
}

/// The only callback of a trial run: it calls the functions of the plan, and counts its steps. In an evaluation each
/// batch is a step. `users`: the trainer's callbacks, which may end the program.
template <class R>
class Conductor {
 public:
  using Stateless = ByChoice;

  Conductor(State<R>& run, RehearsalPlan const& plan, LearningRates& rates, Callbacks users, EpochPlan epoch = {})
      : run_(&run),
        plan_(&plan),
        rates_(&rates),
        users_(users),
        epoch_(epoch),
        begin_(run.progress.global_step),
        notified_(begin_) {}

  Flow on_train_batch_start(auto&) {
    auto const& progress = run_->progress;
    bool const opens = run_->facts.batch_idx == progress.window_start + progress.left_out;
    if (!R::automatic || opens) begin_step(run_->progress.global_step - begin_);
    return Flow::proceed;
  }
  /// With several ranks: this rank takes part in a step although its loader left out all batches of the window.
  void on_before_optimizer_step(auto&)
    requires(shares<R> && R::automatic)
  {
    if (long const number = run_->progress.global_step - begin_; begun_ != number) begin_step(number);
  }
  Flow on_train_batch_end(auto& outputs, auto&, auto&) { return after(&outputs); }
  Flow on_train_batch_end(auto&, auto&) { return after(static_cast<NoOutput*>(nullptr)); }
  /// For a batch that its loader left out. It may close a window that is stepped, without a loss of its own.
  Flow on_train_batch_end(auto&) {
    end_alone_if_asked(*run_, users_);
    return step_ && run_->point.counts ? notify_step() : Flow::proceed;
  }

  /// Called at the end of an epoch. Its last step may have come after the hooks of its last batch: its end was found
  /// late, or a hook left the epoch inside a window.
  void end_epoch() {
    if (step_ && run_->progress.global_step != notified_) notify_step();
  }

  void on_validation_batch_start(auto&) { begin_step(batches_++); }
  void on_test_batch_start(auto&) { begin_step(batches_++); }
  void on_predict_batch_start(auto&) { begin_step(batches_++); }
  void on_validation_batch_end(auto&) { end_batch(); }
  void on_test_batch_end(auto&) { end_batch(); }
  void on_predict_batch_end(auto&) { end_batch(); }

  /// True if one of the plan's functions has called stop() in an evaluation.
  bool ends_pass() const { return ends_pass_; }

 private:
  using Backend = typename R::Backend;

  void begin_step(long number) {
    begun_ = number;
    loss_ = nullptr;
    step_.emplace(*rates_, number);
    step_->set_batch(run_->facts.batch_idx, run_->facts.batch_size);
    if (plan_->before_step) plan_->before_step(*step_);
  }

  void end_batch() {
    end_alone_if_asked(*run_, users_);
    if (!step_) return;  // the loader left this batch out
    if (plan_->after_step) plan_->after_step(*step_);
    ends_pass_ = step_->stops();
    step_.reset();
  }

  template <class Outputs>
  Flow after(Outputs* outputs) {
    end_alone_if_asked(*run_, users_);
    if (!step_) return Flow::proceed;
    bool const closes = !R::automatic || !run_->facts.accumulating;
    bool const waits = !closes && run_->facts.end_unknown;  // it may have ended its window
    if (!closes && !waits) return Flow::proceed;
    loss_ = loss_of_batch(outputs);
    if (waits && loss_) loss_ = [value = loss_()] { return value; };  // a copy: the outputs will be gone
    step_->set_batch(run_->facts.batch_idx, run_->facts.batch_size);
    return closes ? notify_step() : Flow::proceed;
  }
  Flow notify_step() {
    notified_ = run_->progress.global_step;
    step_->set_made(notified_ - begin_);
    step_->set_loss(loss_of_ranks(std::exchange(loss_, nullptr)));
    if (plan_->after_step) plan_->after_step(*step_);
    if (!step_->stops()) return Flow::proceed;
    auto& stop = run_->due.stop;
    stop.holds = stop.asked = true;  // all ranks have seen the same loss
    return Flow::stop;
  }

  template <class Outputs>
  std::function<double()> loss_of_batch([[maybe_unused]] Outputs* outputs) const {
    if constexpr (!std::is_same_v<Outputs, NoOutput>) {
      if (auto* loss = loss_of<Backend>(*outputs))
        return [loss, batches = batches_of_window()] { return Backend::read(*loss) * static_cast<double>(batches); };
    }
    return nullptr;
  }
  /// The mean over the ranks that have a loss, so that all of them see the same one; nullptr where none has one.
  std::function<double()> loss_of_ranks(std::function<double()> mine) const {
    if constexpr (shares<R> && R::automatic) {
      double const part = mean_of_ranks(*run_, mine ? 1.0 : 0.0);
      if (part == 0) return nullptr;
      return [run = run_, mine = std::move(mine), part] { return mean_of_ranks(*run, mine ? mine() : 0.0) / part; };
    } else {
      return mine;
    }
  }
  /// The number of batches that the whole window would have had. The outputs of a step are divided by it.
  long batches_of_window() const {
    auto const& progress = run_->progress;
    auto const& most = epoch_.batches;
    return (most ? std::min(progress.window_end, *most) : progress.window_end) - progress.window_start;
  }

  State<R>* run_;
  RehearsalPlan const* plan_;
  LearningRates* rates_;
  Callbacks users_;
  EpochPlan epoch_;
  long begin_;
  std::optional<RehearsedStep> step_ = std::nullopt;
  std::function<double()> loss_ = nullptr;  ///< this rank's, of the last batch of the window
  long begun_ = -1;                         ///< the number of the last step that was begun
  long notified_;                           ///< the last step that was reported
  long batches_ = 0;                        ///< of an evaluation
  bool ends_pass_ = false;
};
template <class R>
inline constexpr bool tries_pass_out<Pack<Conductor<R>>> = true;

/// A source of data for trial runs: without validation.
template <class Source>
struct TrainingAlone {
  static constexpr bool trains = true;
  template <class Hook>
  static constexpr bool evaluates = false;
  Source& from;
  auto& module() { return from.module(); }
  auto& train() { return from.train(); }
  bool& is_train_fresh() { return from.is_train_fresh(); }
};

/// Makes trial runs. The trainer's callbacks are not notified, except that they may end the program.
template <class R, class Source>
class Rehearsal final : public Rehearser<R> {
 public:
  Rehearsal(State<R>& run, Source& source)
      : Rehearser<R>(run, run.parts.optimizers->of_each()),
        users_(run.callbacks),
        source_(source),
        sizes_(run, source) {}

  void rehearse(RehearsalPlan const& plan) override {
    check_steps(plan);
    // An optimizer that says it is Stateless may still have moments. After a trial run they would have other values.
    if constexpr (!optimizers_remember<R>)
      if (!run_.searching.alone)
        throw Error("fulgurite.tuner.optimizer",
                    "an optimizer has no state(archive), so the steps of a trial run inside of a fit cannot be undone: "
                    "give it one that saves its moments (without moments: its rate), or search before the fit");
    if (run_.loading.training_is_open && !plan.fresh_loader) return rehearse_on(plan, source_);
    auto own = source_.fresh();  // the fit requests its own loaders later
    std::optional<SharedOut<R, Source, hook::val_dataloader>> shared_out;
    // A fit that has prepared its own loader, to count its batches, trains on its part after this.
    if (source_.is_train_fresh()) shared_out.emplace(run_, own);
    rehearse_on(plan, own);
  }
  BatchSizes& batch_sizes() override { return sizes_; }

 private:
  using Backend = typename R::Backend;
  using Conducted = Pack<Conductor<R>>;
  using Rehearser<R>::rates_;
  using Rehearser<R>::run_;

  template <class Data>
  void rehearse_on(RehearsalPlan const& plan, Data& from) {
    TrainingAlone<Data> data{from};
    KeptRun<R, TrainingAlone<Data>, true> kept(run_, data);
    bool const begun = run_.loading.training_is_open;
    restore_after(
        [&] {
          prepare(plan);
          if (run_.asked.options.limit_train_batches.none()) return;
          auto const shape = plan_training(run_, data);
          kept.keep_loader(data.train());
          if (plan.on_loader) plan.on_loader(facts_of(data.train(), size_of(data.train())));
          run(plan, data, shape, begun);
        },
        [&] { kept.restore(); });
    end_alone_if_asked(run_, users_);
  }

  /// Sets the options of a run with that many steps and nothing else.
  void prepare(RehearsalPlan const& plan) {
    auto& options = run_.asked.options;
    options.max_steps = run_.progress.global_step + plan.steps;
    options.max_time.reset();
    options.min_epochs.reset();
    options.min_steps.reset();
    if (plan.non_finite) options.non_finite = *plan.non_finite;
    if (plan.options) plan.options(options);
    run_.due.stop = {};
    run_.due.requests.clear();
    run_.facts.has_validation = false;
    begin_trying_out(run_);
    watch_finite(run_);
    if (!plan.schedules) run_.parts.optimizers->each_scheduler([](auto& scheduler) { scheduler.retire(); });
  }

  template <class Data>
  void run(RehearsalPlan const& plan, Data& data, EpochPlan const& shape, bool begun) {
    std::optional<decltype(Backend::anomaly(false))> anomaly;
    if (!begun) anomaly.emplace(InPlace{[&] { return Backend::anomaly(run_.asked.options.detect_anomaly); }});
    Conducted pack{Slots<Conductor<R>>(Conductor<R>(run_, plan, rates_, users_, shape))};
    auto const alone = callbacks_of(pack);
    Instead const others(run_.callbacks, std::vector<AnyCallback>(alone.begin(), alone.end()));
    RunContext<R, phase::Train> ctx(run_);
    run_.measured.train_board.restart();
    if (!begun) notify<hook::on_train_start>(run_, pack, ctx);
    while (!done(run_)) one_epoch(data, pack, shape, begun);
  }
  /// `begun`: the start of the current epoch was already dispatched.
  template <class Data>
  void one_epoch(Data& data, Conducted& pack, EpochPlan const& shape, bool& begun) {
    auto& progress = run_.progress;
    auto& loader = data.train();
    RunContext<R, phase::Train> ctx(run_);
    run_.facts.is_last_batch = false;
    begin_shared_epoch(run_);
    notify_epoch(loader, progress.epoch);
    if (!std::exchange(begun, false)) notify<hook::on_train_epoch_start>(run_, pack, ctx);
    if (!stops(run_)) {
      TrainEpoch<R, Conducted, Data> batches(run_, pack, data, shape);
      batches.template walk<false>(run_, pack);
      pack.slots.template get<Conductor<R>>().end_epoch();
    }
    settle_counts(run_);
    notify<hook::on_train_epoch_end>(run_, pack, ctx);
    if constexpr (R::automatic)
      if (run_.facts.is_last_batch) observe_schedulers(run_, ctx, Interval::epoch, progress.epoch, progress.epoch + 1);
    report_epoch(run_, pack);
    count_epoch(run_);
  }

  std::vector<AnyCallback> users_;
  Source& source_;
  BatchSizes sizes_;
};

// Searches that callbacks requested: a fit runs them when nothing else is under way.

/// Requests loaders with another batch size, with which the current epoch begins.
template <class R, class Source>
void load_again(State<R>& run, Source& source, EpochPlan& plan) {
  if constexpr (requires { source.reload_training(); }) {
    source.reload_training();
    source.reload_validation();
  }
  if (!run.loading.training_is_open) return;  // they are requested later
  plan = plan_training(run, source);
  int const since = run.loading.validation_since;  // so that the next reload is due as before
  check_validation(run, source);
  run.loading.validation_since = since;
  notify_epoch(source.train(), run.progress.epoch);
}

/// Runs each of `searches`. What they set stays for the training.
template <class Searches, class R, class Source>
void answer(Searches searches, State<R>& run, Source& source, EpochPlan& plan) {
  Rehearsal<R, Source> rehearsal(run, source);
  for (auto const& search : searches) {
    search(rehearsal);
    // The next search uses the batch size that this one has found.
    if (std::exchange(run.searching.sizes_changed, false)) load_again(run, source, plan);
  }
}

/// Runs `pass`, then restores the position of the training loader, however the pass ended, so that a run trained
/// further gets the same batches. A loader with resume_at uses the order of the next epoch, also in a repeated pass.
template <class Loader, class Pass>
void out_of_count([[maybe_unused]] Loader& loader, [[maybe_unused]] long epoch, Pass&& pass) {
  auto const stand_between_epochs = [&] {
    if constexpr (Jumps<Loader>) {
      notify_epoch(loader, epoch);
      loader.resume_at(0);
    }
  };
  [[maybe_unused]] auto const fold = [&](auto& archive) { archive.child("train_loader", loader); };
  if constexpr (Stateful<Loader, StateSaver>) {
    out_of_count(stand_between_epochs, fold, fold, pass);
  } else {
    stand_between_epochs();
    pass();
  }
}

/// Passes the training data through training_step once: without gradients, updates, logging or hooks, except those of
/// the transfer. BatchNorm needs it after the weights were replaced. With several ranks, each passes its own part of
/// the data, and the statistics are combined.
template <class R, class Pack, class Source>
void statistics_pass(State<R>& run, Pack const&, Source& source, EpochPlan const& plan) {
  using Backend = typename R::Backend;
  RunContext<R, phase::Train> ctx(run);
  auto const outside = run.facts;
  auto& model = *run.parts.model;
  if constexpr (R::automatic) {
    [[maybe_unused]] auto const gradients_off = Backend::no_grad(false);
    [[maybe_unused]] auto const generators = Backend::isolated_rng();
    auto& loader = source.train();
    auto const take = [&](auto&& raw, long b, auto&& end) {
      run.facts.batch_idx = b;
      run.facts.is_last_batch = end.before_step();
      if (!is_none(raw))
        with_batch(run, source, ctx, present(raw), [&](auto& batch) {
          run.facts.in_batch = true;  // so that training_step can log as in a step
          measure(run, batch);
          [[maybe_unused]] auto const scope = Backend::autocast(run.parts.precision, run.parts.strategy.device());
          [[maybe_unused]] auto const products = products_scope(run);
          if constexpr (Recurrent<typename R::Model>) {
            run.carried.hidden.reset();
            for (auto& slice : time_slices<R>(model, batch, run.optimization.tbptt, ctx)) {
              auto const output = call_training_step(model, slice, run.carried.hidden, ctx);
              if constexpr (!is_optional<std::remove_cvref_t<decltype(output)>>)
                run.carried.hidden.emplace(Backend::detached_state(output.hidden));
              else if (output) run.carried.hidden.emplace(Backend::detached_state(output->hidden));
            }
          } else {
            call_training_step(model, batch, run.carried.hidden, ctx);
          }
          run.measured.train_board.restart();
        });
      end_alone_if_asked(run, run.callbacks);
      return !end.after_step();
    };
    out_of_count(loader, run.progress.epoch, [&] { each_batch(loader, plan.most(), take); });
    if constexpr (hook::of_strategy::share_statistics::named<typename R::Strategy>)
      run.parts.strategy.share_statistics(model);
  }
  run.facts = outside;
}

}  // namespace fulgurite::loop
