#pragma once
// Participants that hear everything and write it down: what was called, in which order.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/policy/policies.hpp>

#include "toy.hpp"

namespace toy {

using Trace = std::vector<std::string>;
inline Trace trace;
inline void note(std::string what) { trace.push_back(std::move(what)); }

/// How often something was noted.
inline long noted(std::string const& what) { return std::count(trace.begin(), trace.end(), what); }

/// `{"C.x", "x"}`: what a callback and the model make of one event.
inline void both(Trace& to, std::string const& event) {
  to.push_back("C." + event);
  to.push_back(event);
}
inline void add(Trace& to, Trace const& more) { to.insert(to.end(), more.begin(), more.end()); }

// The rows of the table that manual optimization calls, too: those whose last argument is not `false`.
#define TOY_ALWAYS(PREFIX, NAME)                                                                                       \
  void NAME() { note(PREFIX #NAME); }
#define TOY_ALWAYSfalse(PREFIX, NAME)
#define TOY_IN_MANUAL(PREFIX, NAME, TAKES, ANSWER, WHERE, ...) TOY_ALWAYS##__VA_ARGS__(PREFIX, NAME)
#define TOY_C(NAME, ...) TOY_ALWAYS("C.", NAME)
#define TOY_M(NAME, ...) TOY_ALWAYS("", NAME)
#define TOY_MANUAL_C(...) TOY_IN_MANUAL("C.", __VA_ARGS__)
#define TOY_MANUAL_M(...) TOY_IN_MANUAL("", __VA_ARGS__)

/// A callback with every event there is.
struct Witness {
  FULGURITE_EVENTS(TOY_C)
};
struct ManualWitness {
  FULGURITE_EVENTS(TOY_MANUAL_C)
};

/// A model with every event, every override and every step; p moves by the lr at each step.
struct Everything {
  Tensor p = Tensor::parameter(0.0);
  Everything() = default;
  Everything(Everything const&) = delete;
  FULGURITE_EVENTS(TOY_M)
  void prepare_data() const { note("prepare_data"); }
  void configure_model() { note("configure_model"); }
  auto configure_optimizers() {
    note("configure_optimizers");
    return fulgurite::scheduled(Sgd{{p}}, [](long) { return 1.0; });
  }
  Tensor training_step(double) {
    note("training_step");
    return -p;
  }
  Tensor validation_step(double) {
    note("validation_step");
    return p;
  }
  void test_step(double) { note("test_step"); }
  double predict_step(double batch) {
    note("predict_step");
    return batch;
  }
  void backward(Tensor& loss) {
    note("backward");
    loss.backward();
  }
  void optimizer_step(auto& optimizer, auto& closure) {
    note("optimizer_step");
    optimizer.step(closure);
  }
  void optimizer_zero_grad(auto& optimizer) {
    note("optimizer_zero_grad");
    optimizer.zero_grad();
  }
  void configure_gradient_clipping(auto& optimizer, fulgurite::Clip clip, auto& ctx) {
    note("configure_gradient_clipping");
    ctx.clip_gradients(optimizer, clip);
  }
  void lr_scheduler_step(auto& scheduler) {
    note("lr_scheduler_step");
    scheduler.step();
  }
  void on_validation_model_zero_grad() { note("on_validation_model_zero_grad"); }
  void on_validation_model_eval() { note("on_validation_model_eval"); }
  void on_validation_model_train() { note("on_validation_model_train"); }
  void on_test_model_eval() { note("on_test_model_eval"); }
  void on_test_model_train() { note("on_test_model_train"); }
  void on_predict_model_eval() { note("on_predict_model_eval"); }
};

/// A data module with everything a data module may have.
struct Everywhere {
  int train = 2, val = 1;
  void prepare_data() const { note("D.prepare_data"); }
  void setup() { note("D.setup"); }
  void teardown() { note("D.teardown"); }
  void on_exception() { note("D.on_exception"); }
  auto train_dataloader() { return loader("D.train_dataloader", train); }
  auto val_dataloader() { return loader("D.val_dataloader", val); }
  auto test_dataloader() { return loader("D.test_dataloader", val); }
  auto predict_dataloader() { return loader("D.predict_dataloader", val); }
  double on_before_batch_transfer(double batch) { return noting("D.on_before_batch_transfer", batch); }
  double transfer_batch_to_device(double batch) { return noting("D.transfer_batch_to_device", batch); }
  double on_after_batch_transfer(double batch) { return noting("D.on_after_batch_transfer", batch); }

 private:
  static std::vector<double> loader(char const* what, int n) {
    note(what);
    return batches(n);
  }
  static double noting(char const* what, double batch) {
    note(what);
    return batch;
  }
};
inline Trace const transfer{"D.on_before_batch_transfer", "D.transfer_batch_to_device", "D.on_after_batch_transfer"};

/// One evaluation of `batches` batches; X is validation, test or predict.
inline Trace evaluation(std::string const& x, int batches) {
  Trace t{"on_" + x + "_model_eval"};
  std::string const step = x + "_step";
  both(t, "on_" + x + "_start");
  both(t, "on_" + x + "_epoch_start");
  for (int b = 0; b != batches; ++b) {
    add(t, transfer);
    both(t, "on_" + x + "_batch_start");
    t.push_back(step);
    both(t, "on_" + x + "_batch_end");
  }
  both(t, "on_" + x + "_epoch_end");
  both(t, "on_" + x + "_end");
  if (x != "predict") t.push_back("on_" + x + "_model_train");
  return t;
}

/// The frame around every run.
inline Trace prologue() { return {"D.prepare_data", "prepare_data", "D.setup", "C.setup", "setup", "configure_model"}; }
inline Trace epilogue() { return {"D.teardown", "C.teardown", "teardown"}; }

}  // namespace toy
