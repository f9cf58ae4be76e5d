// Section 11.5: the closure of a step, steps without a loss, repeating optimizers, clipping.
#include <cmath>

#include <fulgurite/loop/parts.hpp>

#include "observed.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::note;
using toy::noted;
using toy::Tensor;
using toy::trace;

namespace {

/// Notes everything of a step.
struct Notes : toy::P {
  void on_before_zero_grad() { note("clear"); }
  void on_before_backward() { note("backward"); }
  void on_before_optimizer_step(auto& ctx) { note("step " + std::to_string(ctx.batch_idx())); }
  void configure_gradient_clipping(auto&, Clip, auto&) { note("clip"); }
};

struct SkipsOdd : Notes {
  std::vector<bool> with_loss = {};
  std::optional<Tensor> training_step(double batch) {
    note("forward");
    if (int(batch) % 2 == 1) return std::nullopt;
    return -p;
  }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long) { return 1.0; }, {.interval = Interval::step});
  }
  void on_train_batch_end(auto& outputs, auto&, auto& ctx) {
    with_loss.push_back(outputs.has_value());
    ctx.each_scheduler([](auto& s) { note("moves " + std::to_string(s.moves())); });
  }
};

struct Repeats : Notes {
  Tensor training_step(double) {
    note("forward");
    return -p;
  }
  toy::Repeating configure_optimizers() {
    toy::Repeating optimizer;
    optimizer.params = {p};
    return optimizer;
  }
};

struct Forgets : toy::P {
  void optimizer_step(auto&, auto&) {}
};

/// Linear(32 -> 2) on ones, its sum as the loss: 66 parameters, each with the gradient 1.
struct Ones {
  std::vector<Tensor> parameters = [] {
    std::vector<Tensor> all;
    for (int i = 0; i != 66; ++i) all.push_back(Tensor::parameter(0.0));
    return all;
  }();
  double before = 0, after = 0, largest = 0;
  int asked = 0;
  double norm() const {
    double squares = 0;
    for (auto const& p : parameters) squares += p.grad() * p.grad();
    return std::sqrt(squares);
  }
  Tensor training_step(double) {
    Tensor sum(0.0);
    for (auto const& p : parameters) sum = sum + p;
    return sum;
  }
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) {
    ++asked;
    before = norm();
    ctx.clip_gradients(optimizer, clip);
    after = norm();
    largest = parameters.front().grad();
  }
  toy::Sgd configure_optimizers() { return {.params = parameters, .rate = 0.0}; }
};
Ones clipped(Clip clip) {
  Ones model;
  toy::train<Ones>({.max_epochs = 1}, Automatic{.clip = clip}).fit(model, toy::batches(1));
  return model;
}

struct Doubles : toy::P {
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) {
    if (ctx.current_epoch() >= 1) clip.limit *= 2;
    ctx.clip_gradients(optimizer, clip);
  }
};

struct Unmoved : Notes {
  NoOptimizer configure_optimizers() { return {}; }
};

/// Where a batch is none, only the batch's end is heard.
struct Sparse : toy::P {
  void on_train_batch_start() { note("start"); }
  void on_train_batch_end() { note("end"); }
  Tensor training_step(double) {
    note("step");
    return -p;
  }
};

}  // namespace

TEST_CASE("C55 no loss at 1, 3 of 4: backward only at 0, 2; clearing, the step, its hooks, clipping, the schedule "
          "always; empty outputs there") {
  SkipsOdd model;
  trace.clear();
  auto trainer = toy::train<SkipsOdd>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(4));
  CHECK(observed("C55", "trace", trace) == Words{"forward", "clear",    "backward", "step 0", "clip",    "moves 1",
                                                 "forward", "clear",    "step 1",   "clip",   "moves 2", "forward",
                                                 "clear",   "backward", "step 2",   "clip",   "moves 3", "forward",
                                                 "clear",   "step 3",   "clip",     "moves 4"});
  CHECK(observed("C55", "outputs", model.with_loss) == std::vector<bool>{true, false, true, false});
  CHECK(observed("C55", "gs", trainer.progress().global_step) == 4);
  CHECK(observed("C55", "p", model.p.value()) == 2.0);
}

TEST_CASE("C56 the same with K2: backward at 0, 2, steps at 1, 3, gs 2") {
  SkipsOdd model;
  trace.clear();
  auto trainer = toy::train<SkipsOdd>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2});
  trainer.fit(model, toy::batches(4));
  CHECK(observed("C56", "trace", trace) == Words{"forward", "clear", "backward", "moves 0", "forward", "step 1", "clip",
                                                 "moves 1", "forward", "clear", "backward", "moves 1", "forward",
                                                 "step 3", "clip", "moves 2"});
  CHECK(observed("C56", "gs", trainer.progress().global_step) == 2);
  CHECK(observed("C56", "p", model.p.value()) == 1.0);  // two halves: K counts batches, with a loss or without
}

TEST_CASE("C58 an optimizer_step that never runs its closure is an Error that says so") {
  Forgets model;
  std::string which;
  CHECK(observed("C58", "n1",
                 outcome([&] { toy::train<Forgets>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(1)); },
                         &which)) == "error");
  CHECK(which == "fulgurite.hook.closure_not_run");
}

TEST_CASE(
    "C59 four evaluations a step, n2: 8 training steps, 8 clearings, 8 hooks before the step, 8 times clipping; gs 2") {
  Repeats model;
  trace.clear();
  auto trainer = toy::train<Repeats>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(2));
  CHECK(observed("C59", "training steps", noted("forward")) == 8);
  CHECK(observed("C59", "clearings", noted("clear")) == 8);
  CHECK(observed("C59", "backwards", noted("backward")) == 8);
  CHECK(observed("C59", "before step", noted("step 0") + noted("step 1")) == 8);
  CHECK(observed("C59", "clippings", noted("clip")) == 8);
  CHECK(observed("C59", "gs", trainer.progress().global_step) == 2);
  CHECK(model.p.value() == 8.0);
}

TEST_CASE("C60 no optimizer, n2: steps count, nothing moves") {
  Unmoved model;
  auto trainer = toy::train<Unmoved>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(2));
  CHECK(observed("C60", "gs", trainer.progress().global_step) == 2);
  CHECK(observed("C60", "p", model.p.value()) == 0.0);
}

TEST_CASE("C61 clipping by norm: 8.124 becomes .5, each of 66 elements .0615") {
  auto const model = clipped(ClipNorm{0.5});
  CHECK(observed("C61", "before", model.before) == std::sqrt(66.0));
  CHECK(std::abs(observed("C61", "after", model.after) - 0.5) < 1e-6);
  CHECK(std::abs(observed("C61", "largest", model.largest) - 0.0615457) < 1e-6);
}

// Lightning: 0 and -1 are accepted and mean no clipping.
TEST_CASE("C62 clipping by value: the largest is .5; unset: unchanged, the hook is still called; 0 and -1 are refused "
          "with D7") {
  auto const by_value = clipped(ClipValue{0.5}), unset = clipped({});
  CHECK(observed("C62", "value: largest", by_value.largest) == 0.5);
  CHECK(std::abs(observed("C62", "value: after", by_value.after) - 4.06202) < 1e-5);
  CHECK(observed("C62", "unset: after", unset.after) == std::sqrt(66.0));
  CHECK(observed("C62", "unset: asked", unset.asked) == 1);
  std::string which;
  CHECK(observed("C62", "0", outcome([] { clipped(ClipValue{0.0}); }, &which)) == "error");
  CHECK(which == "fulgurite.options.clip");
  CHECK(observed("C62", "-1", outcome([] { clipped(ClipNorm{-1.0}); }, &which)) == "error");
  CHECK(which == "fulgurite.options.clip");
}

TEST_CASE("C63 P n3, norm .25: the factor is v / (norm + 1e-6), at most 1") {
  auto p = [](double limit) {
    toy::P model;
    toy::train<toy::P>({.max_epochs = 1}, Automatic{.clip = ClipNorm{limit}}).fit(model, toy::batches(3));
    return model.p.value();
  };
  CHECK(observed("C63", "p", p(0.25)) == 3 * (0.25 / (1.0 + 1e-6)));
  CHECK(observed("C63", "p, norm 50", p(50)) == 3.0);
}

// Lightning: an error, since document D's example no longer works.
TEST_CASE("C64 with D18 the hook may clip at another limit than the trainer's") {
  Doubles model;
  CHECK(
      observed("C64", "doubled", outcome([&] {
                 toy::train<Doubles>({.max_epochs = 2}, Automatic{.clip = ClipValue{0.25}}).fit(model, toy::batches(1));
               })) == "runs");
  CHECK(model.p.value() == 0.75);
}

TEST_CASE("C66 a batch that is none in the middle of 3: no start hook and no step for it, its end hook runs; gs 2") {
  Sparse model;
  trace.clear();
  auto trainer = toy::train<Sparse>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, std::vector<std::optional<double>>{0.0, std::nullopt, 2.0});
  CHECK(observed("C66", "trace", trace) == Words{"start", "step", "end", "end", "start", "step", "end"});
  CHECK(observed("C66", "gs", trainer.progress().global_step) == 2);
}
