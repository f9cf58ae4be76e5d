// C154: the order of everything, in full: fit with accumulation, manual optimization, validate, test, predict, no
// batches.

#include <cmath>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>

#include "observed.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::add;
using toy::both;
using toy::note;
using toy::Trace;
using toy::trace;

namespace {

auto trainer(TrainerOptions options) {
  return make_trainer<toy::Everything>(options, toy::Device{}, Float32{},
                                       Automatic{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}}, toy::Witness{});
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

/// Manual optimization: every event it has, and the backward of one's own.
struct ManualModel {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  FULGURITE_EVENTS(TOY_MANUAL_M)
  void backward(toy::Tensor& loss) {
    note("backward");
    loss.backward();
  }
  void training_step(double, auto& ctx) {
    note("training_step");
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(-p);
    ctx.step(optimizer);
    note("stepped");
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

}  // namespace

TEST_CASE("C154 hook sequences of fit, manual fit, validate, test and predict") {
  toy::Everything model;
  trace.clear();

  SECTION("fit, automatic, K = 2, clipping, a schedule per epoch") {
    toy::Everywhere data;
    trainer({.max_epochs = 1}).fit(model, data);
    CHECK(trace == worked_sequence());
    std::erase_if(trace, [](std::string const& word) {
      return word.starts_with("on_sanity_check");
    });  // Lightning's models do not hear it
    observed("C154", "fit", trace);
    CHECK(std::abs(model.p.value() - 0.5) < 1e-6);  // the mean gradient -1, its norm limited to 0.5
  }

  SECTION("manual") {
    ManualModel by_hand;
    make_trainer<ManualModel>({.max_epochs = 1}, toy::Device{}, Float32{}, Manual{}, toy::ManualWitness{})
        .fit(by_hand, toy::batches(2));
    Trace expected;
    for (auto const* name : {"setup", "on_fit_start", "on_train_start", "on_train_epoch_start"}) both(expected, name);
    for (int b = 0; b != 2; ++b) {
      both(expected, "on_train_batch_start");
      expected.push_back("training_step");
      add(expected, backward());
      both(expected, "on_before_optimizer_step");
      expected.push_back("stepped");
      both(expected, "on_train_batch_end");
    }
    for (auto const* name : {"on_train_epoch_end", "on_train_end", "on_fit_end", "teardown"}) both(expected, name);
    CHECK(observed("C154", "manual", trace) == expected);
  }

  SECTION("validate and test: the frame, the evaluation, no training hooks, no optimizers") {
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
      CHECK(observed("C154", x, trace) == expected);
    }
  }

  SECTION("predict: modes are restored without a hook, the outputs come back in order") {
    toy::Everywhere data{.val = 3};
    auto const outputs = trainer({.max_epochs = 1}).predict(model, data);
    Trace expected = toy::prologue();
    expected.push_back("D.predict_dataloader");
    add(expected, toy::evaluation("predict", 3));
    add(expected, toy::epilogue());
    CHECK(observed("C154", "predict", trace) == expected);
    CHECK(outputs == std::vector<std::vector<double>>{{0, 1, 2}});
  }

  SECTION("limit 0: no hook of that evaluation runs, its loader is never asked for") {
    toy::Everywhere data;
    Trace frame = toy::prologue();
    add(frame, toy::epilogue());
    auto t = trainer({.max_epochs = 1, .limit_val_batches = 0, .limit_test_batches = 0, .limit_predict_batches = 0});
    CHECK(t.validate(model, data).empty());
    CHECK(observed("C154", "no batches", trace) == frame);
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
}
