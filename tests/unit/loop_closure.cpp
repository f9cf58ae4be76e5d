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
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    ended.emplace_back(outputs ? outputs->loss.value() : -1, outputs ? outputs->rows : -1);
  }
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
/// Evaluates the closure twice before one update, as sharpness-aware minimization does.
struct Twice : Repeats {
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
  void optimizer_step(auto& optimizer, auto& closure) {
    closure();
    optimizer.step(closure);
  }
};

/// Warms the rate up in its own step, as Lightning's programs do, and notes the rates that were used.
template <bool by_context>
struct WarmsUp : toy::P {
  std::vector<double> rates = {};
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long moves) { return moves < 3 ? 1.0 : 0.5; }, {.interval = Interval::step});
  }
  void optimizer_step(auto& optimizer, auto& closure, auto& ctx) {
    for (std::size_t group = 0; group != optimizer.groups() && ctx.global_step() < 2; ++group) {
      double const rate = (1.0 + double(ctx.global_step())) / 8;
      if constexpr (by_context) ctx.optimizer().set_lr(group, rate);
      else optimizer.set_lr(group, rate);
    }
    rates.push_back(optimizer.lr());
    optimizer.step(closure);
  }
};

}  // namespace

TEST_CASE("a step may return a struct with a loss, or an optional of one") {
  ReturnsStruct model;
  toy::train<ReturnsStruct>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(3));
  CHECK(model.p.value() == 2.0);
  CHECK(model.ended == std::vector<std::pair<double, int>>{{4, 0}, {-1, -1}, {3, 2}});
}

TEST_CASE("of a repeated closure only the last evaluation is logged, also where it logs a metric twice, on a device "
          "that waits or not") {
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

TEST_CASE("optimizer_step sets the rate by its optimizer as by the context's: a schedule moves it after the step") {
  WarmsUp<false> model;
  toy::train<WarmsUp<false>>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(5));
  WarmsUp<true> other;
  toy::train<WarmsUp<true>>({.max_epochs = 1}, Automatic{}).fit(other, toy::batches(5));
  CHECK(model.rates == std::vector<double>{0.125, 0.25, 1, 0.5, 0.5});
  CHECK(other.rates == model.rates);
  CHECK(other.p.value() == model.p.value());
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
