// GradientNorm: which numbers it sends, at which steps, before clipping.
#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>

#include <limits>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {
/// In batch b the gradients are 3(b + 1) and 4(b + 1).
struct Pair {
  toy::Tensor a = toy::Tensor::parameter(0.0), b = toy::Tensor::parameter(0.0), unused = toy::Tensor::parameter(0.0);
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() {
    return {{"a", a}, {"net.b", b}, {"unused", unused}};
  }
  toy::Tensor training_step(double batch) {
    return a * toy::Tensor(3 * (batch + 1)) + b * toy::Tensor(4 * (batch + 1));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{a, b, unused}, 0.1}; }
};

struct Two {
  toy::Tensor a = toy::Tensor::parameter(0.0), b = toy::Tensor::parameter(0.0);
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() { return {{"a", a}, {"b", b}}; }
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    ctx.backward(a * toy::Tensor(3.0) + b * toy::Tensor(4.0));
    ctx.step(first);
    ctx.step(second);
  }
  auto configure_optimizers() { return optimizers(toy::Sgd{{a}}, toy::Sgd{{b}}); }
};

/// The cells of GradientNorm alone.
std::vector<toy::Row> norms_of(std::vector<toy::Row> rows) {
  for (auto& row : rows) std::erase_if(row.cells, [](auto const& cell) { return !cell.first.starts_with("grad_"); });
  std::erase_if(rows, [](auto const& row) { return row.cells.empty(); });
  return rows;
}
template <class M = Pair>
std::vector<toy::Row> rows(GradientNormOptions options, int batches, int every, Automatic how = {}) {
  M model;
  auto trainer = toy::train<M>({.max_epochs = 1, .num_sanity_val_steps = 0, .log_every_n_steps = every}, how,
                               GradientNorm{options}, toy::Rows{});
  trainer.fit(model, toy::batches(batches));
  return norms_of(trainer.template callback<toy::Rows>().rows);
}
using Rows = std::vector<toy::Row>;

struct FailsOnce {
  using Stateless = ByChoice;
  bool failed = false;
  void on_train_batch_end() {
    if (!std::exchange(failed, true)) throw Error("fulgurite.test.step", "a step failed");
  }
};
double const infinity = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("one number for each parameter that has a gradient, and the norm of all", "[gradient_norm]") {
  CHECK(rows({}, 2, 1) == Rows{{0, {{"grad_2.0_norm/a", 3}, {"grad_2.0_norm/net.b", 4}, {"grad_2.0_norm_total", 5}}},
                               {1, {{"grad_2.0_norm/a", 6}, {"grad_2.0_norm/net.b", 8}, {"grad_2.0_norm_total", 10}}}});
  CHECK(rows({1}, 1, 1) == Rows{{0, {{"grad_1.0_norm/a", 3}, {"grad_1.0_norm/net.b", 4}, {"grad_1.0_norm_total", 7}}}});
  CHECK(rows({infinity}, 1, 1) ==
        Rows{{0, {{"grad_inf_norm/a", 3}, {"grad_inf_norm/net.b", 4}, {"grad_inf_norm_total", 4}}}});
}

TEST_CASE("S80: at steps that are also logged, before clipping", "[gradient_norm]") {
  Automatic const clipping{.clip = ClipNorm{0.5}};
  auto const seen = rows({}, 6, 3, clipping);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].x == 2);
  CHECK(seen[1].x == 5);
  CHECK(seen[0].cells.back().second == Catch::Approx(15));
  CHECK(seen[1].cells.back().second == Catch::Approx(30));
}

TEST_CASE("a window of batches has one row, of its mean gradient; the device is read once for it", "[gradient_norm]") {
  toy::world.reads = 0;
  auto const seen = rows({}, 4, 1, Automatic{.accumulate_grad_batches = 2});
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].cells.back() == std::pair<std::string, double>("grad_2.0_norm_total", 7.5));
  CHECK(toy::world.reads == 2);
}

TEST_CASE("log_every_n_steps = 0 sends nothing", "[gradient_norm]") { CHECK(rows({}, 3, 0).empty()); }

TEST_CASE("a closure that is evaluated several times makes one row", "[gradient_norm]") {
  struct Repeated : Pair {
    toy::Repeating configure_optimizers() { return toy::Repeating{{{a, b}, 0.1}}; }
  };
  auto const seen = rows<Repeated>({}, 2, 1);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].cells.size() == 3);
}

TEST_CASE("each of several optimizers sends the norms of its own parameters", "[gradient_norm]") {
  Two model;
  auto trainer = make_trainer<Two>({.max_epochs = 1, .num_sanity_val_steps = 0, .log_every_n_steps = 1}, toy::Device{},
                                   Float32{}, Manual{}, GradientNorm{}, toy::Rows{});
  trainer.fit(model, toy::batches(1));
  CHECK(norms_of(trainer.callback<toy::Rows>().rows) == Rows{{0,
                                                              {{"grad_2.0_norm/a", 3},
                                                               {"grad_2.0_norm_total", 3},
                                                               {"grad_2.0_norm/b", 4},
                                                               {"grad_2.0_norm_total-1", 4}}}});
}

TEST_CASE("W82: a norm type of 0 or less is refused when it is given; in a constant, by the compiler",
          "[gradient_norm]") {
  static_assert((GradientNorm{{.norm_type = 0.5}}, true));
  for (double const type : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK(toy::refusal([&] { GradientNorm{{.norm_type = type}}; }) == "fulgurite.callback.gradient_norm_type");
}

TEST_CASE("a fit after one that failed has all its rows", "[gradient_norm]") {
  Pair model;
  auto trainer = toy::train<Pair>({.max_epochs = 1, .num_sanity_val_steps = 0, .log_every_n_steps = 1}, {},
                                  GradientNorm{}, FailsOnce{}, toy::Rows{});
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(2)), Error);
  trainer.callback<toy::Rows>().rows.clear();
  trainer.fit(model, toy::batches(2));
  CHECK(norms_of(trainer.callback<toy::Rows>().rows).size() == 2);
}

TEST_CASE("norms are of what is stepped: callbacks that change gradients come first, wherever they are listed",
          "[gradient_norm]") {
  Pair model;
  auto trainer = toy::train<Pair>(
      {.max_epochs = 1, .num_sanity_val_steps = 0, .log_every_n_steps = 1}, {}, GradientNorm{},
      LambdaCallback{on<hook::on_before_optimizer_step>([](auto&, auto& ctx) { ctx.model().a.set_grad(0); })},
      toy::Rows{});
  trainer.fit(model, toy::batches(1));
  CHECK(norms_of(trainer.template callback<toy::Rows>().rows).front().cells.back().second == 4);
}
