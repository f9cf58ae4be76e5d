#include <limits>
#include <utility>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/signals.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct Ended {
  int epochs;
  StopReason reason;
  std::optional<int> stopped;
  Outcome outcome;
  std::string message;
};
template <class M = Metric<"vl">>
Ended run(std::vector<double> script, EarlyStoppingOptions how, TrainerOptions options = quick(20),
          M metric = Scripted::vl) {
  Scripted model{.script = std::move(script)};
  auto trainer = fitted(model, options, 2, EarlyStopping{metric, how});
  auto const& stopping = trainer.template callback<EarlyStopping<M>>();
  return {model.epochs, stopping.reason(), stopping.stopped_epoch(), trainer.outcome(), stopping.message()};
}
}  // namespace

static_assert(std::is_same_v<decltype(EarlyStopping{Scripted::vl, {.patience = 3}}), EarlyStopping<Metric<"vl">>>);
static_assert(std::is_same_v<decltype(EarlyStopping{Scripted::vl.last()}), EarlyStopping<Last<Metric<"vl">>>>);

// There are two views of a metric. Another one, or a type derived from a metric's, would be read as one of these.
struct OwnView {
  using metric = Metric<"vl">;
  static constexpr std::string_view name() { return metric::name(); }
};
struct DerivedMetric : Metric<"vl"> {};
static_assert(Watchable<Metric<"vl">> && Watchable<Last<Metric<"vl">>> && Watchable<OfLoader<Metric<"vl">>>);
static_assert(!Watchable<OwnView> && !Watchable<DerivedMetric>);
static_assert(!std::is_constructible_v<WatchedMetric, OwnView>);

// A loader's name is a literal: a string that ends before the callback would leave it a view of nothing.
template <class Name>
concept NamesALoader = requires(Name const& name) { Scripted::vl.of(name); };
static_assert(NamesALoader<char[6]> && !NamesALoader<std::string> && !NamesALoader<std::string_view>);

namespace {
struct Slow : EarlyStopping<Metric<"vl">> {
  using EarlyStopping::EarlyStopping;
  virtual ~Slow() = default;  // the base begins behind a pointer
};
}  // namespace

TEST_CASE("early stopping: a derived class beside it, of the same metric, does not withdraw its stop") {
  Scripted model{.script = {5, 6, 7, 8, 9}};
  auto const trainer =
      fitted(model, quick(5), 2, EarlyStopping{Scripted::vl, {.patience = 1}}, Slow(Scripted::vl, {.patience = 9}));
  CHECK(model.epochs == 2);
  CHECK(trainer.outcome().ended_by == "EarlyStopping: vl = 6 has not improved on 5 for 1 checks");
}

namespace {

struct OfTwo {
  EarlyStopping<Metric<"vl">> first{Scripted::vl, {.patience = 1}};
  EarlyStopping<Metric<"val/acc">> second{Scripted::acc, {.patience = 9}};
  void on_validation_end(auto& ctx) {
    first.on_validation_end(ctx);
    second.on_validation_end(ctx);
  }
  void on_train_epoch_end(auto& ctx) {
    first.on_train_epoch_end(ctx);
    second.on_train_epoch_end(ctx);
    ctx.set_stop_request(ctx.name_of(this), false);  // it speaks for itself alone
  }
  void state(auto& archive) { archive.child("first", first).child("second", second); }
};

}  // namespace

TEST_CASE("early stopping: two that are members of one callback do not withdraw each other's stop") {
  Scripted model{.script = {5, 6, 7, 8, 9}};
  fitted(model, quick(5), 2, OfTwo{});
  CHECK(model.epochs == 2);
}

TEST_CASE("early stopping: a run that a derived class has ended resumes with more patience") {
  Folder const folder;
  auto const epochs = [&](int patience, std::optional<CkptPath> const& from) {
    Scripted model{.script = {5, 6, 7, 8, 9, 10}};
    auto trainer = make_trainer<Scripted>(quick(6), SavingDevice{}, Float32{}, Automatic{},
                                          Slow(Scripted::vl, {.patience = patience}));
    trainer.fit(model, toy::batches(2), toy::batches(1), from);
    trainer.save_checkpoint(folder / "end");
    return trainer.progress().epoch;
  };
  CHECK(epochs(1, std::nullopt) == 2);
  CHECK(epochs(1, CkptPath{folder / "end"}) == 2);
  CHECK(epochs(3, CkptPath{folder / "end"}) == 4);
}

namespace {
struct PrintEpoch {
  void on_train_epoch_end(Context&) {}
};
}  // namespace

TEST_CASE(
    "early stopping: a run that it has ended resumes with more patience, also beside a callback without members") {
  Folder const folder;
  auto const epochs = [&](int patience, std::optional<CkptPath> const& from) {
    Scripted model{.script = {5, 6, 7, 8, 9, 10}};
    auto trainer = make_trainer<Scripted>(quick(6), SavingDevice{}, Float32{}, Automatic{}, PrintEpoch{},
                                          EarlyStopping{Scripted::vl, {.patience = patience}});
    trainer.fit(model, toy::batches(2), toy::batches(1), from);
    trainer.save_checkpoint(folder / "end");
    return trainer.progress().epoch;
  };
  CHECK(epochs(1, std::nullopt) == 2);
  CHECK(epochs(3, CkptPath{folder / "end"}) == 4);
}

TEST_CASE("early stopping: the reason, the epoch, the sentence") {
  auto const patient = run({6, 5, 4, 4}, {.patience = 1});
  CHECK(patient.reason == StopReason::patience);
  CHECK(run({5, 5}, {.patience = 1}).epochs == 2);
  CHECK(patient.stopped == 3);
  CHECK(patient.message == "EarlyStopping: vl = 4 has not improved on 4 for 1 checks");
  CHECK(patient.outcome.ended_by == patient.message);
  CHECK(run({3, 2, INFINITY}, {}).reason == StopReason::non_finite);
  auto const through = run({3, 2, 1}, {}, quick(3));
  CHECK(through.reason == StopReason::not_stopped);
  CHECK_FALSE(through.stopped);
  CHECK(through.message.empty());
}

TEST_CASE("early stopping: a limit inside the first epoch comes before the validation that logs the metric") {
  Scripted model;
  auto options = quick(5);
  options.max_steps = 3;
  auto trainer = fitted(model, options, 5, EarlyStopping{Scripted::vl});
  CHECK(trainer.progress().global_step == 3);
  options.max_steps = 5;
  CHECK_THROWS_AS(fitted(model, options, 5, EarlyStopping{Scripted::missing}), Error);
}

TEST_CASE("early stopping: not checking for finite values, NaN counts as no improvement") {
  CHECK(run({3, nan_value, nan_value, nan_value}, {.patience = 3, .check_finite = false}).reason ==
        StopReason::patience);
}

TEST_CASE("early stopping: an improvement must exceed min_delta") {
  CHECK(run({5, 4.5, 4}, {.min_delta = 0.5, .patience = 1}).epochs == 2);  // equal is not enough
  CHECK(run({5, 4.4, 3.8, 3.8}, {.min_delta = 0.5, .patience = 1}).epochs == 4);
  CHECK(run({1, 1.5}, {.min_delta = 0.5, .patience = 1, .mode = Mode::max}).epochs == 2);
}

TEST_CASE("early stopping: the sanity check and a run of validate do not count") {
  auto options = quick(3);
  options.num_sanity_val_steps = 1;
  Scripted model{.script = {5, 5, 5}};
  auto trainer =
      fitted(model, options, 2, EarlyStopping{Scripted::vl, {.patience = 2, .check_on_train_epoch_end = false}});
  auto& stopping = trainer.template callback<EarlyStopping<Metric<"vl">>>();
  CHECK(stopping.wait_count() == 2);
  CHECK(stopping.stopped_epoch() == 2);
  trainer.validate(model, toy::batches(1));
  CHECK(stopping.wait_count() == 2);
}

TEST_CASE("early stopping: looks where validation ends when that is not once an epoch") {
  auto options = quick(2);
  options.val_check_interval = 1;  // after each of two batches: four looks
  Scripted model{.script = {5}};
  auto trainer = fitted(model, options, 2, EarlyStopping{Scripted::vl, {.patience = 9}});
  CHECK(trainer.template callback<EarlyStopping<Metric<"vl">>>().wait_count() == 3);
  Scripted again{.script = {5}};
  auto other =
      fitted(again, options, 2, EarlyStopping{Scripted::vl, {.patience = 9, .check_on_train_epoch_end = true}});
  CHECK(other.template callback<EarlyStopping<Metric<"vl">>>().wait_count() == 1);
}

TEST_CASE("early stopping: tells the outcome") {
  auto const outcome = run({3, 1, 2}, {}, quick(3)).outcome;
  CHECK(outcome.best_metric == "vl");
  CHECK(outcome.best_value == 1.0);
  CHECK(outcome.best_epoch == 1);
}

TEST_CASE("early stopping: options that make no sense") {
  CHECK(error_of([] {
          EarlyStopping{Scripted::vl, {.patience = -1}};
        }).starts_with("[fulgurite.callback.early_stopping_options]"));
  CHECK(error_of([] {
          EarlyStopping{Scripted::vl, {.min_delta = nan_value}};
        }).starts_with("[fulgurite.callback.early_stopping_options]"));
}

TEST_CASE("early stopping: its state comes back") {
  Scripted model{.script = {6, 5, 5}};
  auto trainer = fitted(model, quick(3), 2, EarlyStopping{Scripted::vl, {.patience = 2}});
  auto& one = trainer.template callback<EarlyStopping<Metric<"vl">>>();
  EarlyStopping two{Scripted::vl, {.patience = 2}};
  load_state_text(two, state_text(one));
  CHECK(state_text(two) == state_text(one));
  CHECK(two.wait_count() == 1);
  CHECK(two.best_score() == 5);
  CHECK(one.state_key() == "EarlyStopping{vl, min}");
  EarlyStopping fresh{Scripted::vl};
  load_state_text(two, state_text(fresh));  // before the first check: no best value yet
  CHECK(std::isinf(two.best_score()));
}

namespace {

/// Asks for a stop in the first epoch.
struct AsksOnce {
  using Stateless = ByChoice;
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() == 0) ctx.request_stop();
  }
};

/// A second one of the same metric.
struct Greatest : EarlyStopping<Metric<"vl">> {
  using EarlyStopping<Metric<"vl">>::EarlyStopping;
};

/// Cuts two of three epochs short.
struct Skips {
  using Stateless = ByChoice;
  Flow on_train_batch_start(auto& ctx) {
    return ctx.current_epoch() % 3 != 0 && ctx.batch_idx() == 1 ? Flow::skip_epoch : Flow::proceed;
  }
};

TrainerOptions at_least(int epochs) {
  auto options = quick(20);
  options.min_epochs = epochs;
  return options;
}

}  // namespace

TEST_CASE("early stopping: until the minima are met it looks on, and a metric that has recovered ends nothing") {
  auto const recovered = run({5, 6, 6, 4, 3, 2}, {.patience = 2}, at_least(6));
  CHECK(recovered.epochs == 8);  // 2 is not improved on twice
  CHECK(recovered.stopped == 7);
  CHECK(recovered.message == "EarlyStopping: vl = 2 has not improved on 2 for 2 checks");
  auto const through = run({5, 6, 6, 4, 3, 2}, {.patience = 2}, [] {
    auto options = at_least(6);
    options.max_epochs = 6;
    return options;
  }());
  CHECK(through.reason == StopReason::not_stopped);
  CHECK_FALSE(through.stopped);
  CHECK(through.message.empty());
  // One that is as bad as before ends the fit where the minimum is met.
  auto const still = run({5, 6, 6, 6, 6, 6}, {.patience = 2}, at_least(6));
  CHECK(still.epochs == 6);
  CHECK(still.reason == StopReason::patience);
  CHECK(still.stopped == 5);
  CHECK(run({5, 1, 9}, {.stopping_threshold = 2}, at_least(4)).epochs == 5);
  CHECK(run({5, 1, 9, 9, 1}, {.stopping_threshold = 2}, at_least(5)).epochs == 5);
}

TEST_CASE("early stopping: min_steps may be met inside of an epoch, where the last look counts") {
  auto const steps = [](std::vector<double> script) {
    auto options = quick(20);
    options.min_steps = 9;  // two an epoch
    Scripted model{.script = std::move(script)};
    return fitted(model, options, 2, EarlyStopping{Scripted::vl, {.patience = 1}}).progress().global_step;
  };
  CHECK(steps({5, 6}) == 9);
  CHECK(steps({5, 6, 6, 4}) == 10);
}

TEST_CASE("early stopping: one monitor that has recovered withdraws neither another's request nor the program's") {
  auto const epochs = [](auto... callbacks) {
    Scripted model{.script = {5, 6, 6, 4, 3, 2, 1, 0}};
    return fitted(model, at_least(6), 2, EarlyStopping{Scripted::vl, {.patience = 2}}, callbacks...).progress().epoch;
  };
  CHECK(epochs() == 10);
  CHECK(epochs(EarlyStopping{Scripted::acc, {.patience = 2}}) == 6);  // always the same
  CHECK(epochs(Greatest{Scripted::vl, {.patience = 2, .mode = Mode::max}}) == 6);
  CHECK(epochs(AsksOnce{}) == 6);
}

TEST_CASE("early stopping: a request that waits for the minima is in the file that a fit resumes from") {
  for (auto const& script : {std::vector<double>{5, 6, 6, 6, 6, 6}, std::vector<double>{5, 6, 6, 6, 6, 4, 4, 4}}) {
    Folder const folder;
    auto const epochs = [&](long fails_at) {
      Scripted model{.script = script, .fails_at = fails_at};
      auto trainer = make_trainer<Scripted>(at_least(6), SavingDevice{}, Float32{}, Automatic{},
                                            EarlyStopping{Scripted::vl, {.patience = 2}},
                                            OnExceptionCheckpoint{{.dirpath = folder.path}});
      static_cast<void>(error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); }));
      return trainer.progress().epoch;
    };
    auto const whole = epochs(-1);
    CHECK(whole == (script.size() == 6 ? 6 : 8));
    CHECK(epochs(9) == 4);
    CHECK(epochs(-1) == whole);
  }
}

TEST_CASE("early stopping: a value that was not logged again is no check") {
  auto options = quick(20);
  options.check_val_every_n_epoch = 2;
  auto const every_second =
      run({0, 5, 0, 6, 0, 7}, {.patience = 2, .strict = false, .check_on_train_epoch_end = true}, options);
  CHECK(every_second.epochs == 6);
  CHECK(every_second.stopped == 5);

  // Epochs that a hook has cut short have no validation; the metric is known, so this is no error either.
  Scripted model{.script = {5, 0, 0, 6, 0, 0, 7}};
  auto trainer = fitted(model, quick(20), 2, Skips{}, EarlyStopping{Scripted::vl, {.patience = 2}});
  CHECK(trainer.progress().epoch == 7);
}

TEST_CASE(
    "early stopping: a fit after one that it has ended says that patience is spent; reset() begins to count again") {
  auto const second = [](bool resets, int patience, int max_epochs) {
    Scripted model{.script = {5, 6, 6, 6, 6, 6, 6, 6, 6, 6}};
    auto trainer = make_trainer<Scripted>(quick(max_epochs), SavingDevice{}, Float32{}, Automatic{},
                                          EarlyStopping{Scripted::vl, {.patience = patience}});
    trainer.fit(model, toy::batches(2), toy::batches(1));
    auto const before = trainer.warnings().size();
    auto options = trainer.given_options();
    options.max_epochs = 20;
    options.silence = {"fulgurite.callback.patience_spent"};
    trainer.set_options(options);
    if (resets) trainer.callback<EarlyStopping>().reset();
    int const epochs = trainer.progress().epoch;
    trainer.fit(model, toy::batches(2), toy::batches(1));
    std::string said;
    for (auto i = before; i != trainer.warnings().size(); ++i) said += trainer.warnings()[i];
    return std::pair(trainer.progress().epoch - epochs, said);
  };
  auto const [epochs, said] = second(false, 2, 20);
  CHECK(epochs == 1);
  CHECK(said ==
        "[fulgurite.callback.patience_spent] EarlyStopping on 'vl' has ended an earlier fit, after 2 checks without "
        "improvement on 5, and keeps these counts: this fit ends at its first check unless that improves. Call reset() "
        "of the callback before fit to begin to count again, or raise patience");
  CHECK(second(true, 2, 20) == std::pair(3, std::string()));
  CHECK(second(false, 2, 2) == std::pair(1, std::string()));  // it has not ended the first fit
}

namespace {
/// Fails once, at the end of the second epoch, after the monitors have looked.
struct FailsBehindMonitors {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  bool failed = false;
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() == 1 && !std::exchange(failed, true)) throw Error("fulgurite.test.planned", "planned");
  }
};
}  // namespace

TEST_CASE("early stopping: the fit after one that failed misses no look at a metric of training") {
  Scripted model;
  auto options = quick(4);
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{},
                                        EarlyStopping{Scripted::loss, {.patience = 20}}, FailsBehindMonitors{});
  std::vector<double> const same{1, 1};
  CHECK_FALSE(error_of([&] { trainer.fit(model, same, toy::batches(1)); }).empty());
  auto const& stopping = trainer.template callback<EarlyStopping<Metric<"loss">>>();
  CHECK(stopping.wait_count() == 1);
  auto const epoch = trainer.progress().epoch;
  trainer.fit(model, same, toy::batches(1));
  CHECK(stopping.wait_count() == 1 + trainer.progress().epoch - epoch);
}
