// Manual optimization: several optimizers, toggling (6.2), closures, the user's own accumulation and schedules.
#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

#include "models.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {

template <class M, class... Cs>
auto manual(TrainerOptions options, Cs... callbacks) {
  return make_trainer<M>(std::move(options), toy::Device{}, Float32{}, Manual{}, std::move(callbacks)...);
}

/// Two players: `shared` belongs to both, `frozen` to g, `free` to nobody.
struct Players {
  Tensor g = Tensor::parameter(1), d = Tensor::parameter(1), shared = Tensor::parameter(1), frozen = Tensor(1),
         free = Tensor::parameter(1);
  std::vector<std::vector<bool>> inside = {};       // requires_grad of g, d, shared, frozen, free during backward
  std::vector<std::vector<double>> gradients = {};  // of the same, at the step
  auto configure_optimizers() {
    return optimizers(toy::Sgd{.params = {g, shared, frozen}, .rate = 0},
                      scheduled(toy::Sgd{.params = {d, shared}, .rate = 1}, [](long n) { return n == 0 ? 0.0 : 1.0; }));
  }
  Tensor loss() const { return g * d * shared * frozen * free; }
  std::vector<bool> flags() const {
    return {g.requires_grad(), d.requires_grad(), shared.requires_grad(), frozen.requires_grad(), free.requires_grad()};
  }
  void on_before_backward() { inside.push_back(flags()); }
  void on_before_optimizer_step() {
    gradients.push_back({g.grad(), d.grad(), shared.grad(), frozen.grad(), free.grad()});
  }
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    ctx.minimize(first, loss());
    ctx.minimize(second, loss());
  }
};

struct ThrowsToggled : Players {
  void training_step(double, auto& ctx) {
    auto const only = ctx.toggle(std::get<0>(ctx.optimizers()));
    inside.push_back(flags());
    throw std::runtime_error("toggled");
  }
};

/// Steps one optimizer each batch, the other in even batches: 2, 1, 2, 1 steps.
struct Uneven {
  Tensor a = Tensor::parameter(0), b = Tensor::parameter(0);
  auto configure_optimizers() { return optimizers(toy::Sgd{{a}}, toy::Sgd{{b}}); }
  void training_step(double batch, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    ctx.minimize(first, -a);
    if (int(batch) % 2 == 0) ctx.minimize(second, -b);
  }
};

template <class Optimizer>
struct Closes : toy::P {
  int closures = 0, hooks = 0;
  Optimizer configure_optimizers() {
    Optimizer optimizer;
    optimizer.params = {p};
    return optimizer;
  }
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.step(optimizer, [&] {
      ++closures;
      optimizer.zero_grad();
      auto value = -p;
      ctx.backward(value);
      return value;
    });
  }
  void on_before_optimizer_step() { ++hooks; }
};

struct Clips : toy::P {
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(p * Tensor(-8.0));
    ctx.clip_gradients(optimizer, ClipValue{0.25});
    ctx.step(optimizer);
  }
};

struct TakesOutputs {
  using Stateless = ByChoice;
  std::vector<double> batches = {};
  void on_train_batch_end(auto& outputs, double batch, auto&) {
    batches.push_back(batch);
    if constexpr (requires { outputs.logits; }) batches.push_back(outputs.logits);
  }
};

}  // namespace

TEST_CASE("on_train_batch_end may take outputs under Manual, which has none") {
  Clips model;
  auto trainer = manual<Clips>({.max_epochs = 1}, TakesOutputs{});
  trainer.fit(model, toy::batches(2));
  CHECK(trainer.callback<TakesOutputs>().batches == std::vector<double>{0, 1});
}

TEST_CASE("toggling: the other's own parameters get no gradient, shared ones do, frozen ones stay frozen, free ones "
          "are left alone") {
  Players model;
  auto trainer = manual<Players>({.max_epochs = 1});
  trainer.fit(model, toy::batches(1));
  using Flags = std::vector<bool>;
  //                                      g      d      shared frozen free
  CHECK(model.inside == std::vector<Flags>{{true, false, true, false, true}, {false, true, true, false, true}});
  using Row = std::vector<double>;
  // free belongs to no optimizer, so nobody clears it; g keeps the gradient of its own step.
  CHECK(model.gradients == std::vector<Row>{{1, 0, 1, 0, 1}, {1, 1, 1, 0, 2}});
  CHECK(model.flags() == Flags{true, true, true, false, true});
  CHECK(trainer.progress().global_step == 2);
}

TEST_CASE("toggling ends with its scope, by an exception, too") {
  ThrowsToggled model;
  CHECK_THROWS(manual<ThrowsToggled>({.max_epochs = 1}).fit(model, toy::batches(1)));
  CHECK(model.inside == std::vector<std::vector<bool>>{{true, false, true, false, true}});
  CHECK(model.flags() == std::vector<bool>{true, true, true, false, true});
}

TEST_CASE("max_steps counts the steps of all optimizers and may be overshot inside one batch: 2, 3, 5 of at most 4") {
  Uneven model;
  auto trainer = manual<Uneven>({.max_steps = 4});
  trainer.fit(model, toy::batches(10));
  CHECK(trainer.progress().global_step == 5);
  CHECK(model.a.value() == 3);
  CHECK(model.b.value() == 2);
}

TEST_CASE("closures: run once by a plain optimizer, as often as a repeating one asks; one step each") {
  Closes<toy::Sgd> once;
  auto plain = manual<Closes<toy::Sgd>>({.max_epochs = 1});
  plain.fit(once, toy::batches(3));
  CHECK(once.closures == 3);
  CHECK(once.hooks == 3);
  CHECK(once.p.value() == 3);
  CHECK(plain.progress().global_step == 3);

  Closes<toy::Repeating> often;
  auto repeating = manual<Closes<toy::Repeating>>({.max_epochs = 1});
  repeating.fit(often, toy::batches(3));
  CHECK(often.closures == 12);
  CHECK(often.hooks == 12);
  CHECK(repeating.progress().global_step == 3);
}

TEST_CASE("clip_gradients between backward and step") {
  Clips model;
  manual<Clips>({.max_epochs = 1}).fit(model, toy::batches(2));
  CHECK(model.p.value() == 0.5);
}
