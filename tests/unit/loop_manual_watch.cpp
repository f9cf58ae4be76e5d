// Mistakes in the order of clear, backward and step are told once; the orders that people use are not taken for
// mistakes.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <tuple>

#include "models.hpp"

using namespace fulgurite;

namespace {

/// Drops gradients when it clears them, so that this can be seen.
struct Drops : toy::Sgd {
  static constexpr bool stable_gradients = false;
};

/// A generator and a discriminator; `Order` is what a batch does with them.
template <class Order>
struct Two {
  toy::Tensor g = toy::Tensor::parameter(1.0), d = toy::Tensor::parameter(1.0);
  void training_step(double batch, auto& ctx) {
    auto& [of_g, of_d] = ctx.optimizers();
    Order{}(static_cast<long>(batch), *this, of_g, of_d, ctx);
  }
  auto configure_optimizers() { return optimizers(Drops{{.params = {g}}}, Drops{{.params = {d}}}); }
};

template <class Order>
std::string told(Order) {
  Two<Order> model;
  auto trainer = make_trainer<Two<Order>>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(model, toy::batches(6));
  std::string all;
  for (auto const& warning : trainer.warnings()) all += warning.substr(0, warning.find(']') + 1);
  return all;
}

}  // namespace

TEST_CASE("clear, backward, step of two networks, toggled or not, is no mistake") {
  CHECK(told([](long, auto& m, auto& g, auto& d, auto& ctx) {
          g.zero_grad(), ctx.backward(m.g * m.d), ctx.step(g);
          d.zero_grad(), ctx.backward(m.d * m.g), ctx.step(d);
        }).empty());
  CHECK(told([](long, auto& m, auto& g, auto& d, auto& ctx) {
          ctx.minimize(g, m.g * m.d);
          ctx.minimize(d, m.d * m.d);
        }).empty());
}

TEST_CASE("clearing after the step, and accumulating by hand, is no mistake") {
  CHECK(told([](long, auto& m, auto& g, auto&, auto& ctx) {
          ctx.backward(m.g * 1.0), ctx.step(g), g.zero_grad();
        }).empty());
  CHECK(told([](long b, auto& m, auto& g, auto&, auto& ctx) {
          ctx.backward(m.g * 0.5);
          if (b % 2 == 1) ctx.step(g), g.zero_grad();
        }).empty());
}

TEST_CASE("W29: a second step with the gradients of the first is told") {
  CHECK(told([](long, auto& m, auto& g, auto&, auto& ctx) { ctx.backward(m.g * 1.0), ctx.step(g); }) ==
        "[fulgurite.manual.not_cleared]");
}

TEST_CASE("a step without a backward is told") {
  CHECK(told([](long, auto& m, auto& g, auto& d, auto& ctx) {
          g.zero_grad(), d.zero_grad();
          ctx.backward(m.g * 1.0), ctx.step(d), ctx.step(g);
        }) == "[fulgurite.manual.no_gradients]");
}

TEST_CASE("W97: the documents' example that clears each batch and steps every second one is told") {
  CHECK(told([](long b, auto& m, auto& g, auto& d, auto& ctx) {
          d.zero_grad(), ctx.backward(m.d * 1.0);
          if (b % 2 == 1) ctx.step(d);
          g.zero_grad(), ctx.backward(m.g * 1.0), ctx.step(g);
        }) == "[fulgurite.manual.dropped_gradients]");
}
