// What a step may return, optimizers that repeat their closure, and models that step themselves (5.3).
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::note;
using toy::noted;
using toy::Tensor;
using toy::Trace;
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

struct Output {
  Tensor loss;
  int rows;
};
struct ReturnsStruct : toy::P {
  std::vector<std::pair<double, int>> ended = {};
  std::optional<Output> training_step(double batch) {
    if (batch == 1) return std::nullopt;
    return Output{p * Tensor(-1.0) + Tensor(4.0), int(batch)};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { ended.emplace_back(outputs ? outputs->loss.value() : -1, outputs ? outputs->rows : -1); }
};

/// Evaluates its closure four times a step; logs a metric once, and one twice.
struct Repeats : Notes {
  static constexpr Metric<"once"> once{.on_epoch = Report::yes};
  static constexpr Metric<"twice"> twice{.reduce = Reduce::sum, .on_epoch = Report::yes};
  using Metrics = MetricList<loss, once, twice>;
  int evaluations = 0;
  Tensor training_step(double, auto& ctx) {
    note("forward");
    ++evaluations;
    ctx.log(once, Tensor(evaluations));
    ctx.log(twice, Tensor(10));
    ctx.log(twice, Tensor(1));
    return -p;
  }
  toy::Repeating configure_optimizers() {
    toy::Repeating optimizer;
    optimizer.params = {p};
    return optimizer;
  }
};

/// Steps every second batch; in between it only makes gradients.
struct Lazy : toy::P {
  std::vector<double> returned = {};
  void optimizer_step(auto& optimizer, auto& closure, auto& ctx) {
    if (ctx.batch_idx() % 2 == 1) optimizer.step(closure);
    else returned.push_back(closure().value());
  }
  Tensor training_step(double) {
    seen.push_back(p.value());
    return p * Tensor(-1.0) + Tensor(5.0);
  }
};
struct Forgets : toy::P {
  void optimizer_step(auto&, auto&) {}
};
/// Evaluates the closure twice before one update, as sharpness-aware minimization does.
struct Twice : Repeats {
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
  void optimizer_step(auto& optimizer, auto& closure) {
    closure();
    optimizer.step(closure);
  }
};

struct Doubles : toy::P {
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) {
    if (ctx.current_epoch() >= 1) clip.limit *= 2;
    ctx.clip_gradients(optimizer, clip);
  }
};

}  // namespace

TEST_CASE("C55: no loss at 1, 3 of 4: backward only at 0, 2; clearing, the step, its hooks, clipping, the schedule always; empty outputs there") {
  SkipsOdd model;
  trace.clear();
  auto trainer = toy::train<SkipsOdd>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(4));
  CHECK(trace == Trace{"forward", "clear", "backward", "step 0", "clip", "moves 1", "forward", "clear", "step 1", "clip", "moves 2",
                       "forward", "clear", "backward", "step 2", "clip", "moves 3", "forward", "clear", "step 3", "clip", "moves 4"});
  CHECK(model.with_loss == std::vector<bool>{true, false, true, false});
  CHECK(trainer.progress().global_step == 4);
  CHECK(model.p.value() == 2.0);
}

TEST_CASE("C56: the same with K2: backward at 0, 2, steps at 1, 3, gs 2") {
  SkipsOdd model;
  trace.clear();
  auto trainer = toy::train<SkipsOdd>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2});
  trainer.fit(model, toy::batches(4));
  CHECK(trace == Trace{"forward", "clear", "backward", "moves 0", "forward", "step 1", "clip", "moves 1",
                       "forward", "clear", "backward", "moves 1", "forward", "step 3", "clip", "moves 2"});
  CHECK(trainer.progress().global_step == 2);
  CHECK(model.p.value() == 1.0);  // two halves: K counts batches, with a loss or without
}

TEST_CASE("a step may return a struct with a loss, or an optional of one") {
  ReturnsStruct model;
  toy::train<ReturnsStruct>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(3));
  CHECK(model.p.value() == 2.0);
  CHECK(model.ended == std::vector<std::pair<double, int>>{{4, 0}, {-1, -1}, {3, 2}});
}

TEST_CASE("C59: four evaluations a step, n2: 8 training steps, 8 clearings, 8 hooks before the step, 8 times clipping; gs 2") {
  Repeats model;
  trace.clear();
  auto trainer = toy::train<Repeats>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(2));
  CHECK(noted("forward") == 8);
  CHECK(noted("clear") == 8);
  CHECK(noted("backward") == 8);
  CHECK(noted("step 0") + noted("step 1") == 8);
  CHECK(noted("clip") == 8);
  CHECK(trainer.progress().global_step == 2);
  CHECK(model.p.value() == 8.0);
}

TEST_CASE("of a repeated closure only the last evaluation is logged, also where it logs a metric twice, on a device that waits or not") {
  for (bool waits : {false, true}) {
    toy::world.device_waits = waits;
    Repeats model;
    auto trainer = toy::train<Repeats>({.max_epochs = 1}, Automatic{});
    trainer.fit(model, toy::batches(2));
    toy::world.device_waits = false;
    CHECK(trainer.value(Repeats::once) == 6.0);    // evaluations 4 and 8
    CHECK(trainer.value(Repeats::twice) == 22.0);  // 10 + 1 in each step
  }
}

TEST_CASE("optimizer_step may run the closure without an update, and sees the loss it returns") {
  Lazy model;
  auto trainer = toy::train<Lazy>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(4));
  CHECK(model.seen == std::vector<double>{0, 0, 1, 1});
  CHECK(model.returned == std::vector<double>{5, 4});
  CHECK(model.p.value() == 2.0);
  CHECK(trainer.progress().global_step == 4);
}

TEST_CASE("optimizer_step may run the closure several times: logged once") {
  Twice model;
  auto trainer = toy::train<Twice>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(2));
  CHECK(model.p.value() == 2.0);
  CHECK(model.evaluations == 4);
  CHECK(trainer.value(Repeats::once) == 3.0);
  CHECK(trainer.value(Repeats::twice) == 22.0);
}

TEST_CASE("C58: an optimizer_step that never runs its closure is an Error that says so") {
  Forgets model;
  CHECK(toy::refusal([&] { toy::train<Forgets>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(1)); }) ==
        "fulgurite.hook.closure_not_run");
}

TEST_CASE("C61, C62, C63: clipping by norm and by value: the factor is v / (norm + 1e-6), at most 1") {
  struct Two {
    Tensor a = Tensor::parameter(0), b = Tensor::parameter(0);
    Tensor training_step(double) { return a * Tensor(-3.0) + b * Tensor(-4.0); }
    toy::Sgd configure_optimizers() { return toy::Sgd{{a, b}}; }
  };
  auto moved = [](Clip clip, int n = 1) {
    Two model;
    toy::train<Two>({.max_epochs = 1}, Automatic{.clip = clip}).fit(model, toy::batches(n));
    return std::pair(model.a.value(), model.b.value());
  };
  CHECK(moved({}) == std::pair(3.0, 4.0));
  double const factor = 0.5 / (5.0 + 1e-6);
  CHECK(moved(ClipNorm{0.5}) == std::pair(3.0 * factor, 4.0 * factor));
  CHECK(moved(ClipNorm{50}) == std::pair(3.0, 4.0));
  CHECK(moved(ClipValue{3.5}) == std::pair(3.0, 3.5));
  toy::P p;
  toy::train<toy::P>({.max_epochs = 1}, Automatic{.clip = ClipNorm{0.25}}).fit(p, toy::batches(3));
  CHECK(p.p.value() == 3 * (0.25 / (1.0 + 1e-6)));
}

TEST_CASE("C64 with D18: the hook may clip at another limit than the trainer's") {
  Doubles model;
  toy::train<Doubles>({.max_epochs = 2}, Automatic{.clip = ClipValue{0.25}}).fit(model, toy::batches(1));
  CHECK(model.p.value() == 0.75);
}
