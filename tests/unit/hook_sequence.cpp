// The order of everything, in full: fit with accumulation (4.9), validate, test, predict (4.5, 4.6).
#include <catch2/catch_test_macros.hpp>

#include <cmath>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/precision.hpp>

#include "trace.hpp"

using namespace fulgurite;
using toy::add;
using toy::both;
using toy::Trace;
using toy::trace;

namespace {

auto trainer(TrainerOptions options) {
  return make_trainer<toy::Everything>(options, toy::Device{}, Float32{}, Automatic{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}},
                                       toy::Witness{});
}

Trace backward() {
  Trace t;
  both(t, "on_before_backward");
  t.push_back("backward");
  both(t, "on_after_backward");
  return t;
}

Trace worked_sequence() {
  Trace t = toy::prologue();
  t.push_back("configure_optimizers");
  both(t, "on_fit_start");
  both(t, "on_sanity_check_start");
  t.push_back("D.val_dataloader");
  add(t, toy::evaluation("validation", 1));
  both(t, "on_sanity_check_end");
  t.push_back("D.train_dataloader");
  both(t, "on_train_start");
  both(t, "on_train_epoch_start");

  add(t, toy::transfer);  // batch 0 opens the window
  both(t, "on_train_batch_start");
  t.push_back("training_step");
  both(t, "on_before_zero_grad");
  t.push_back("optimizer_zero_grad");
  add(t, backward());
  both(t, "on_train_batch_end");

  add(t, toy::transfer);  // batch 1 closes it
  both(t, "on_train_batch_start");
  add(t, {"optimizer_step", "training_step"});
  add(t, backward());
  both(t, "on_before_optimizer_step");
  add(t, {"configure_gradient_clipping", "lr_scheduler_step"});
  both(t, "on_train_batch_end");

  t.push_back("on_validation_model_zero_grad");
  add(t, toy::evaluation("validation", 1));
  both(t, "on_train_epoch_end");
  both(t, "on_train_end");
  both(t, "on_fit_end");
  add(t, toy::epilogue());
  return t;
}

}  // namespace

TEST_CASE("C154: the worked sequence of fit, automatic, K = 2, clipping, a schedule per epoch") {
  toy::Everything model;
  toy::Everywhere data;
  trace.clear();
  trainer({.max_epochs = 1}).fit(model, data);
  CHECK(trace == worked_sequence());
  CHECK(std::abs(model.p.value() - 0.5) < 1e-6);  // the mean gradient -1, its norm limited to 0.5
}

TEST_CASE("C154: validate and test: the frame, the evaluation, no training hooks, no optimizers") {
  toy::Everything model;
  toy::Everywhere data{.val = 2};
  for (std::string const x : {"validation", "test"}) {
    trace.clear();
    auto t = trainer({.max_epochs = 1});
    if (x == "test") t.test(model, data);
    else t.validate(model, data);
    Trace expected = toy::prologue();
    expected.push_back(x == "test" ? "D.test_dataloader" : "D.val_dataloader");
    add(expected, toy::evaluation(x, 2));
    add(expected, toy::epilogue());
    CHECK(trace == expected);
  }
}

TEST_CASE("C154: predict: modes are restored without a hook, the outputs come back in order") {
  toy::Everything model;
  toy::Everywhere data{.val = 3};
  trace.clear();
  auto const outputs = trainer({.max_epochs = 1}).predict(model, data);
  Trace expected = toy::prologue();
  expected.push_back("D.predict_dataloader");
  add(expected, toy::evaluation("predict", 3));
  add(expected, toy::epilogue());
  CHECK(trace == expected);
  CHECK(outputs == std::vector<std::vector<double>>{{0, 1, 2}});
}

TEST_CASE("limit 0: no hook of that evaluation runs, its loader is never asked for") {
  toy::Everything model;
  toy::Everywhere data;
  Trace frame = toy::prologue();
  add(frame, toy::epilogue());
  auto t = trainer({.max_epochs = 1, .limit_val_batches = 0, .limit_test_batches = 0, .limit_predict_batches = 0});
  trace.clear();
  CHECK(t.validate(model, data).empty());
  CHECK(trace == frame);
  trace.clear();
  CHECK(t.test(model, data).empty());
  CHECK(trace == frame);
  trace.clear();
  CHECK(t.predict(model, data).empty());
  CHECK(trace == frame);
  trace.clear();
  t.fit(model, data);
  CHECK(toy::noted("validation_step") == 0);
  CHECK(toy::noted("D.val_dataloader") == 0);
  CHECK(toy::noted("C.on_sanity_check_start") == 0);
}
