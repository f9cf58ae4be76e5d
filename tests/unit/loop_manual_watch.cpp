// Mistakes in the order of clear, backward and step are told once; the orders that people use are not taken for
// mistakes.
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <string>

#include "models.hpp"

using namespace fulgurite;

namespace {

/// Drops gradients when it clears them, so that this can be seen.
struct Drops : toy::Sgd {
  static constexpr bool stable_gradients = false;
};

/// A generator, a discriminator, and what a batch may do with them.
struct Hands {
  toy::Tensor g, d;
  enum Whose { of_g, of_d };
  long batch = 0;
  std::function<void(Whose)> clear = nullptr, step = nullptr;
  std::function<void(toy::Tensor)> backward = nullptr;
  std::function<void(Whose, toy::Tensor)> minimize = nullptr;
};
using enum Hands::Whose;

struct Two {
  void (*order)(Hands&);
  toy::Tensor g = toy::Tensor::parameter(1.0), d = toy::Tensor::parameter(1.0);
  void training_step(double batch, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    auto const of = [&](Hands::Whose whose) -> auto& { return whose == of_g ? first : second; };
    Hands hands{.g = g, .d = d, .batch = static_cast<long>(batch)};
    hands.clear = [&](auto whose) { of(whose).zero_grad(); };
    hands.step = [&](auto whose) { ctx.step(of(whose)); };
    hands.backward = [&](toy::Tensor loss) { ctx.backward(loss); };
    hands.minimize = [&](auto whose, toy::Tensor loss) { ctx.minimize(of(whose), loss); };
    order(hands);
  }
  auto configure_optimizers() { return optimizers(Drops{{.params = {g}}}, Drops{{.params = {d}}}); }
};

std::string told(void (*order)(Hands&)) {
  Two model{order};
  auto trainer = make_trainer<Two>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(model, toy::batches(6));
  std::string all;
  for (auto const& warning : trainer.warnings()) all += warning.substr(0, warning.find(']') + 1);
  return all;
}

}  // namespace

TEST_CASE("clear, backward, step of two networks, toggled or not, is no mistake") {
  CHECK(told([](Hands& by) {
          by.clear(of_g), by.backward(by.g * by.d), by.step(of_g);
          by.clear(of_d), by.backward(by.d * by.g), by.step(of_d);
        }).empty());
  CHECK(told([](Hands& by) {
          by.minimize(of_g, by.g * by.d);
          by.minimize(of_d, by.d * by.d);
        }).empty());
}

TEST_CASE("clearing after the step, and accumulating by hand, is no mistake") {
  CHECK(told([](Hands& by) { by.backward(by.g * 1.0), by.step(of_g), by.clear(of_g); }).empty());
  CHECK(told([](Hands& by) {
          by.backward(by.g * 0.5);
          if (by.batch % 2 == 1) by.step(of_g), by.clear(of_g);
        }).empty());
}

TEST_CASE("W29: a second step with the gradients of the first is told") {
  CHECK(told([](Hands& by) { by.backward(by.g * 1.0), by.step(of_g); }) == "[fulgurite.manual.not_cleared]");
}

TEST_CASE("a step without a backward is told") {
  CHECK(told([](Hands& by) {
          by.clear(of_g), by.clear(of_d);
          by.backward(by.g * 1.0), by.step(of_d), by.step(of_g);
        }) == "[fulgurite.manual.no_gradients]");
}

TEST_CASE("W97: the documents' example that clears each batch and steps every second one is told") {
  CHECK(told([](Hands& by) {
          by.clear(of_d), by.backward(by.d * 1.0);
          if (by.batch % 2 == 1) by.step(of_d);
          by.clear(of_g), by.backward(by.g * 1.0), by.step(of_g);
        }) == "[fulgurite.manual.dropped_gradients]");
}
