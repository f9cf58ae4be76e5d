#include <limits>

#include <fulgurite/callback/early_stopping.hpp>

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

// A loader's name is a literal: a string that ends before the callback would leave it a view of nothing.
template <class Name>
concept NamesALoader = requires(Name const& name) { Scripted::vl.of(name); };
static_assert(NamesALoader<char[6]> && !NamesALoader<std::string> && !NamesALoader<std::string_view>);

TEST_CASE("early stopping: the reason, the epoch, the sentence") {
  auto const patient = run({6, 5, 4, 4}, {.patience = 1});
  CHECK(patient.reason == StopReason::patience);
  CHECK(run({5, 5}, {.patience = 1}).epochs == 2);
  CHECK(patient.stopped == 3);
  CHECK(patient.message == "EarlyStopping: vl = 4 has not improved on 4 for 1 checks");
  CHECK(run({3, 2, INFINITY}, {}).reason == StopReason::non_finite);
  auto const through = run({3, 2, 1}, {}, quick(3));
  CHECK(through.reason == StopReason::not_stopped);
  CHECK_FALSE(through.stopped);
  CHECK(through.message.empty());
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
