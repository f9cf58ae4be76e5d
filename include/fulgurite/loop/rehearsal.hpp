#pragma once
// Steps of the real trainer on a copy of its state: tried out at a place between two epochs, and put back.

#include <optional>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/batch_sizes.hpp>
#include <fulgurite/loop/conductor.hpp>
#include <fulgurite/loop/end_if_asked.hpp>
#include <fulgurite/loop/epoch_end.hpp>
#include <fulgurite/loop/in_place.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/put_back.hpp>
#include <fulgurite/loop/searching.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/train_epoch.hpp>
#include <fulgurite/loop/training_plan.hpp>
#include <fulgurite/loop/training_rows.hpp>
#include <fulgurite/loop/tried_out.hpp>

namespace fulgurite::loop {

/// A source as rehearsed steps see it: without validation.
template <class Source>
struct TrainingAlone {
  static constexpr bool trains = true;
  template <class Hook>
  static constexpr bool evaluates = false;
  Source& from;
  auto& module() { return from.module(); }
  auto& train() { return from.train(); }
  bool is_train_fresh() { return from.is_train_fresh(); }
};

/// `UserPack`: the callbacks of the trainer, which are asked whether the program is to end, and hear nothing else.
template <class R, class UserPack, class Source>
class Rehearsal final : public Rehearser<R> {
 public:
  Rehearsal(State<R>& run, UserPack& pack, Source& source)
      : run_(run), users_(pack), source_(source), rates_(run), sizes_(run, source) {}

  void rehearse(RehearsalPlan const& plan) override {
    check_steps(plan);
    // An optimizer that says it is Stateless may still have moments. After a rehearsal they would have other values.
    if constexpr (!optimizers_remember<R, typename Backend::RunFile::Saver>)
      if (!run_.searching.alone)
        throw Error("fulgurite.tuner.optimizer",
                    "an optimizer has no state(archive), so steps that are tried out inside of a fit cannot be taken "
                    "back: give it one that saves its moments (without moments: its rate), or search before the fit");
    if (run_.loading.training_is_open && !plan.fresh_loader) return rehearse_on(plan, source_);
    auto own = source_.anew();  // the fit asks for its loaders when it is time to
    rehearse_on(plan, own);
  }
  LearningRates& rates() override { return rates_; }
  Context<R, phase::Fit> context() override { return Context<R, phase::Fit>(run_); }
  BatchSizes& batch_sizes() override { return sizes_; }

 private:
  using Backend = typename R::Backend;
  using Conducted = Pack<Conductor<R>>;

  template <class Data>
  void rehearse_on(RehearsalPlan const& plan, Data& from) {
    TrainingAlone<Data> data{from};
    KeptRun<R, TrainingAlone<Data>> kept(run_, data);
    bool has_loader = false;
    bool const begun = run_.loading.training_is_open;
    put_back_after(
        [&] {
          prepare(plan);
          if (run_.asked.options.limit_train_batches.none()) return;
          auto const shape = plan_training(run_, data);
          has_loader = true;
          kept.keep_loader(data.train());
          if (plan.on_loader) plan.on_loader(facts_of(data.train(), size_of(data.train())));
          run(plan, data, shape, begun);
        },
        [&] {
          run_.searching.rehearsing = false;
          kept.put_back();
          if (has_loader) kept.put_back_loader(data.train());
        });
    end_alone_if_asked<R>(users_);
  }

  /// The options of a run that has so many steps and asks for nothing else.
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
    Conducted pack{
        Slots<Conductor<R>>(Conductor<R>(run_, plan, shape, rates_, [this] { end_alone_if_asked<R>(users_); }))};
    Context<R, phase::Train> ctx(run_);
    run_.measured.train_board.restart();
    if (!begun) tell<hook::on_train_start>(run_, pack, ctx);
    while (!done(run_)) one_epoch(data, pack, shape, begun);
  }
  /// `begun`: the epoch at hand was told of before.
  template <class Data>
  void one_epoch(Data& data, Conducted& pack, EpochPlan const& shape, bool& begun) {
    auto& progress = run_.progress;
    auto& loader = data.train();
    Context<R, phase::Train> ctx(run_);
    run_.facts.is_last_batch = false;
    begin_shared_epoch(run_);
    if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{progress.epoch});
    if (!std::exchange(begun, false)) tell<hook::on_train_epoch_start>(run_, pack, ctx);
    if (!stops(run_)) {
      TrainEpoch<R, Conducted, Data> batches(run_, pack, data, shape);
      batches.template walk<false>(run_, pack);
      pack.slots.template get<Conductor<R>>().end_epoch();
    }
    settle_counts(run_);
    tell<hook::on_train_epoch_end>(run_, pack, ctx);
    if constexpr (R::automatic)
      if (run_.facts.is_last_batch) observe_schedulers(run_, ctx, Interval::epoch, progress.epoch, progress.epoch + 1);
    report_epoch(run_, pack);
    count_epoch(run_);
  }

  State<R>& run_;
  UserPack& users_;
  Source& source_;
  RatesOf<R> rates_;
  BatchSizesOf<R, Source> sizes_;
};

}  // namespace fulgurite::loop
