// Section 11.13 without resume: exceptions, callbacks of one kind, their order.
#include <stdexcept>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/timer.hpp>

#include "observed.hpp"
#include "trace.hpp"
#include "unit/callback_run.hpp"

using namespace fulgurite;
using toy::note;
using toy::trace;

namespace {

/// Throws in batch 1; who hears of it.
struct Throws : toy::P {
  toy::Tensor training_step(double batch) {
    if (batch == 1) throw std::runtime_error("batch 1");
    return -p;
  }
  void on_exception(std::exception const& error, auto&) { note(std::string("on_exception ") + error.what()); }
};
struct Hears {
  void on_exception(std::exception const& error, auto& ctx) {
    note(std::string("C.on_exception ") + error.what() + " " + std::to_string(ctx.global_step()));
    ctx.request_checkpoint("rescue");
  }
  void on_train_epoch_end() { note("C.on_train_epoch_end"); }
  void on_train_end() { note("C.on_train_end"); }
  void on_fit_end() { note("C.on_fit_end"); }
  void teardown() { note("C.teardown"); }
};
struct Finalized {
  using Stateless = ByChoice;
  void log_metrics(std::span<Scalar const>, long) {}
  void finalize(Status status) { note(status == Status::failed ? "failed" : "success"); }
};

template <class C>
constexpr std::string_view called() {
  if constexpr (std::is_same_v<C, LearningRateMonitor>) return "LearningRateMonitor";
  else if constexpr (std::is_same_v<C, Timer>) return "Timer";
  else if constexpr (std::is_same_v<C, ProgressBar>) return "ProgressBar";
  else if constexpr (std::is_same_v<C, ModelSummary>) return "ModelSummary";
  else if constexpr (std::is_same_v<C, ModelCheckpoint<>>) return "ModelCheckpoint";
  else return "EarlyStopping";
}
template <class... Cs>
Words firing_order() {
  Words given{std::string(called<Cs>())...}, fired;
  for (std::size_t i : Pack<Cs...>::firing_order) fired.push_back(given[i]);
  return fired;
}

}  // namespace

// Lightning: the model has no on_exception of its own.
TEST_CASE("C147 an exception: on_exception for callbacks, then the model; no end hooks; the requested checkpoint, "
          "loggers told, rethrown") {
  Throws model;
  auto trainer = toy::train<Throws>({.max_epochs = 1}, Automatic{}, Hears{}, Finalized{});
  trace.clear();
  toy::world.saved.clear();
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(4)), std::runtime_error);
  CHECK(trace == Words{"C.on_exception batch 1 1", "on_exception batch 1", "failed"});
  observed("C147", "heard", trace.front());
  CHECK(observed("C147", "gs", trainer.progress().global_step) == 1);
  CHECK(toy::world.saved == Words{"rescue"});
  trace.clear();
  trainer.fit(model, toy::batches(4, 2));  // the trainer can be used again
  CHECK(trace == Words{"C.on_train_epoch_end", "C.on_train_end", "C.on_fit_end", "C.teardown", "success"});
}

// The same type twice does not compile: tests/nocompile/callback.twice.cpp.
TEST_CASE("C152 two EarlyStopping on different metrics are fine") {
  Scripted model{.script = {3, 2, 1}};
  auto trainer = fitted(model, quick(3), 2, EarlyStopping{Scripted::vl}, EarlyStopping{Scripted::acc, {.patience = 1}});
  CHECK(observed("C152", "different", trainer.progress().epoch) == 2);
  CHECK(trainer.callback<EarlyStopping<Metric<"val/acc">>>().stopped_epoch() == 1);
  CHECK(trainer.callback<EarlyStopping<Metric<"vl">>>().reason() == StopReason::not_stopped);
}

// Lightning: EarlyStopping stands before LearningRateMonitor and hears the end of the epoch after the model all the
// same (C100).
TEST_CASE("C153 callbacks fire in the order of their kind, whatever the order they were given in") {
  auto const fired = firing_order<ModelCheckpoint<>, ProgressBar, EarlyStopping<Metric<"vl">>, ModelSummary, Timer,
                                  LearningRateMonitor>();
  CHECK(observed("C153", "order", fired) ==
        Words{"LearningRateMonitor", "Timer", "ProgressBar", "ModelSummary", "EarlyStopping", "ModelCheckpoint"});
}
