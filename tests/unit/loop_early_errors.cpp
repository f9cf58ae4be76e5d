// What only values decide, told before training: one Error, or one warning, each with its identifier.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <string>

#include <fulgurite/callback/timer.hpp>

#include "models.hpp"

using namespace fulgurite;

namespace {

struct ByValue : toy::Device {
  static constexpr bool clips_by_norm = false;
};
struct ByNorm : toy::Device {
  static constexpr bool clips_by_value = false;
};
struct Fused : toy::Sgd {
  static constexpr bool unscales_itself = true;
};
struct OnFused : toy::P {
  Fused configure_optimizers() { return {{.params = {p}}}; }
};

template <class M = toy::P, class S = toy::Device, class P = Float32, class... Cs>
std::string refused(TrainerOptions options, Automatic how, Cs... callbacks) {
  return toy::refusal([&] {
    M model;
    make_trainer<M>(options, S{}, P{}, how, callbacks...).fit(model, toy::batches(2));
    CHECK(model.seen.size() == 2);
  });
}

/// Logs a metric of steps where there is no step.
struct LogsLate : toy::P {
  static constexpr Metric<"late"> late{.on_step = Report::yes};
  using Metrics = MetricList<toy::P::loss, late>;
  void on_train_epoch_end(auto& ctx) { ctx.log(late, 1.0); }
};
struct StepsItself : toy::P {
  void optimizer_step(auto& optimizer, auto& closure) { optimizer.step(closure); }
};

}  // namespace

TEST_CASE("W26 a strategy that cannot clip one way says so before training") {
  CHECK(refused<toy::P, ByValue>({.max_epochs = 1}, {.clip = ClipNorm{1}}) == "fulgurite.policy.clip");
  CHECK(refused<toy::P, ByNorm>({.max_epochs = 1}, {.clip = ClipValue{1}}) == "fulgurite.policy.clip");
  CHECK(refused<toy::P, ByValue>({.max_epochs = 1}, {.clip = ClipValue{1}}).empty());
  CHECK(refused<toy::P, ByNorm>({.max_epochs = 1}, {.clip = ClipNorm{1}}).empty());
}

TEST_CASE("W27 clipping before an optimizer that unscales in its step is refused where the loss is scaled") {
  CHECK(refused<OnFused, toy::Gpu, Fp16Mixed>({.max_epochs = 1}, {.clip = ClipNorm{1}}) ==
        "fulgurite.optimizer.unscales_itself");
  CHECK(refused<OnFused, toy::Gpu, Fp16Mixed>({.max_epochs = 1}, {}).empty());
  CHECK(refused<OnFused, toy::Gpu, Float32>({.max_epochs = 1}, {.clip = ClipNorm{1}}).empty());
}

TEST_CASE("W39 max_time beside a Timer with a limit is refused, beside one that only measures it is not") {
  CHECK(refused({.max_epochs = 1, .max_time = Seconds(60)}, {}, Timer{Seconds(60)}) == "fulgurite.options.two_timers");
  CHECK(refused({.max_epochs = 1, .max_time = Seconds(60)}, {}, Timer{}).empty());
}

TEST_CASE("W56 a metric of steps that is logged in a hook of the epoch is an Error") {
  CHECK(refused<LogsLate>({.max_epochs = 1}, {}) == "fulgurite.metric.no_step");
}

TEST_CASE("W86 an overridden optimizer_step with windows of several batches is told to be called once a window") {
  auto const told = [](int window) {
    StepsItself model;
    auto trainer = toy::train<StepsItself>({.max_epochs = 1}, {.accumulate_grad_batches = window});
    trainer.fit(model, toy::batches(2));
    return trainer.warnings().size() == 1 && trainer.warnings().front().starts_with("[fulgurite.hook.once_a_window]");
  };
  CHECK(told(2));
  CHECK_FALSE(told(1));
}

namespace {
/// Accumulates by hand over windows that end with the epoch.
struct ByHand {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> stepped = {};
  std::vector<int> sizes = {};
  void training_step(double batch, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.backward(p * toy::Tensor(batch + 1));
    if (!ctx.closes_window(2)) return;
    sizes.push_back(ctx.window_size(2));
    stepped.push_back(p.grad());
    ctx.step(optimizer);
    optimizer.zero_grad();
  }
  toy::Sgd configure_optimizers() { return {{p}}; }
};
}  // namespace

TEST_CASE("W96 a window accumulated by hand closes with the epoch instead of being carried over") {
  ByHand model;
  auto trainer = make_trainer<ByHand>(TrainerOptions{.max_epochs = 2}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(model, toy::batches(3));
  CHECK(model.stepped == std::vector<double>{3, 3, 3, 3});
  CHECK(model.sizes == std::vector<int>{2, 1, 2, 1});
  CHECK(trainer.progress().global_step == 4);
}

namespace {
/// Optimization policies of one's own.
struct OwnWindow : Automatic {
  std::string note = "";
};
struct OwnLoop {
  using Stateless = ByChoice;
  static constexpr bool automatic = false;
};
}  // namespace

TEST_CASE("an optimization policy of one's own trains, and its window and limits are checked as Automatic's are") {
  OwnWindow how;
  how.accumulate_grad_batches = 2;
  toy::P model;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, how);
  trainer.fit(model, toy::batches(4));
  CHECK(trainer.progress().global_step == 2);
  how.accumulate_grad_batches = 0;
  CHECK_THROWS_WITH(make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, how),
                    Catch::Matchers::ContainsSubstring("fulgurite.options.accumulate"));
  ByHand by_hand;
  auto second = make_trainer<ByHand>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, OwnLoop{});
  second.fit(by_hand, toy::batches(4));
  CHECK(second.progress().global_step == 2);
}

namespace {
struct Evaluates : toy::Validated {
  void test_step(double) {}
  double predict_step(double batch) { return batch; }
};
/// Does something in a hook of test.
struct InTest {
  using Stateless = ByChoice;
  std::function<void()> then = nullptr;
  void on_test_batch_end() {
    if (then) then();
  }
};
}  // namespace

TEST_CASE(
    "a run inside of an evaluation of the same trainer is refused: it would replace the values of the outer one") {
  Evaluates model;
  auto const data = toy::batches(1);
  auto trainer = toy::train<Evaluates>({.max_epochs = 1}, Automatic{}, InTest{});
  auto& then = trainer.callback<InTest>().then;
  auto const refused = [&](auto&& inner) {
    then = inner;
    return toy::refusal([&] { trainer.test(model, data); });
  };
  CHECK(refused([&] { trainer.fit(model, data, NoValidation{}); }) == "fulgurite.trainer.open_evaluation");
  CHECK(refused([&] { trainer.validate(model, data); }) == "fulgurite.trainer.open_evaluation");
  CHECK(refused([&] { trainer.predict(model, data); }) == "fulgurite.trainer.open_evaluation");
  CHECK(refused([] {}).empty());
  then = nullptr;
  trainer.fit(model, data, NoValidation{});
}
