// Each schedule against its closed form, move by move; how they are put together; which constants are refused.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <numbers>

#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"

using namespace fulgurite::schedule;

namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-12; }

template <class S, class F>
void equals(S const& schedule, F closed_form, long moves = 40) {
  static_assert(Schedule<S>);
  for (long t = 0; t != moves; ++t) {
    CAPTURE(t);
    CHECK(near(schedule(t), closed_form(t)));
  }
}

/// The rates that the steps of a fit take.
template <class S>
struct Follows : toy::P {
  S schedule;
  std::vector<double> rates = {};
  explicit Follows(S s) : schedule(std::move(s)) {}
  auto configure_optimizers() { return fulgurite::scheduled(toy::Sgd{{p}}, schedule); }
  void on_before_optimizer_step(auto& optimizer, auto&) { rates.push_back(optimizer.lr(0)); }
};
template <class S>
std::vector<double> rates(S schedule, int n, int epochs) {
  Follows<S> model(schedule);
  toy::train<Follows<S>>({.max_epochs = epochs}, fulgurite::Automatic{}).fit(model, toy::batches(n));
  return model.rates;
}

}  // namespace

TEST_CASE("Constant, Step, MultiStep, Exponential") {
  equals(Constant{0.3}, [](long) { return 0.3; });
  equals(Step{3, 0.5}, [](long t) { return t < 3 ? 1.0 : 0.5 * Step{3, 0.5}(t - 3); });
  equals(MultiStep{{2, 5, 5, 9}, 0.1},
         [](long t) { return (t >= 2 ? 0.1 : 1.0) * (t >= 5 ? 0.01 : 1.0) * (t >= 9 ? 0.1 : 1.0); });
  double factor = 1;
  equals(Exponential{0.9}, [&](long) { return std::exchange(factor, factor * 0.9); });
}

TEST_CASE("Polynomial, Cosine: from 1 at 0 to their least at `total`, and there they stay") {
  equals(Polynomial{10, 2.0},
         [](long t) { return t < 10 ? (10.0 - static_cast<double>(t)) * (10.0 - static_cast<double>(t)) / 100 : 0.0; });
  equals(Polynomial{10}, [](long t) { return t < 10 ? 1.0 - static_cast<double>(t) / 10 : 0.0; });
  equals(Cosine{10},
         [](long t) { return t < 10 ? std::pow(std::cos(std::numbers::pi * static_cast<double>(t) / 20), 2) : 0.0; });
  equals(Cosine{8, 0.2}, [](long t) {
    return t < 8 ? 0.2 + 0.8 * std::pow(std::cos(std::numbers::pi * static_cast<double>(t) / 16), 2) : 0.2;
  });
  CHECK(near(Cosine{10}(5), 0.5));
}

TEST_CASE("LinearWarmup: from `from` to 1; WarmupCosine: its first step is taken at 1/warmup, its top is where the "
          "cosine begins") {
  equals(LinearWarmup{4}, [](long t) { return t < 4 ? 0.25 * static_cast<double>(t) : 1.0; });
  equals(LinearWarmup{4, 0.2}, [](long t) { return t < 4 ? 0.2 + 0.2 * static_cast<double>(t) : 1.0; });
  equals(WarmupCosine{4, 14, 0.1},
         [](long t) { return t < 4 ? 0.25 * static_cast<double>(t + 1) : Cosine{10, 0.1}(t - 4); });
}

TEST_CASE("a product is both at once, then() one after the other from its own beginning") {
  equals(LinearWarmup{4} * Cosine{20}, [](long t) { return LinearWarmup{4}(t)*Cosine{20}(t); });
  equals(then(LinearWarmup{4}, 4, Cosine{10}), [](long t) { return t < 4 ? LinearWarmup{4}(t) : Cosine{10}(t - 4); });
  static_assert(counts_steps<decltype(Step{2} * Cosine{3})>);
  static_assert(!counts_steps<decltype(Step{2} * Constant{})>);
  static_assert(counts_steps<decltype(then(Constant{}, 2, Polynomial{3}))>);
}

TEST_CASE("Linear: LinearLR between any two factors") {
  equals(Linear{}, [](long t) { return t < 5 ? (5.0 + 2.0 * static_cast<double>(t)) / 15 : 1.0; });
  equals(Linear{.start_factor = 1, .end_factor = 0.5, .total = 4},
         [](long t) { return t < 4 ? 1 - static_cast<double>(t) / 8 : 0.5; });
}

TEST_CASE("ConstantLR is a constant, then another") {
  equals(then(Constant{1.0 / 3}, 5, Constant{}), [](long t) { return t < 5 ? 1.0 / 3 : 1.0; });
}

TEST_CASE("a periodic Cosine goes back up and down for ever, as CosineAnnealingLR does") {
  equals(
      Cosine{.total = 7, .least = 0.1, .periodic = true},
      [](long t) { return 0.55 + 0.45 * std::cos(std::numbers::pi * static_cast<double>(t) / 7); }, 70);
}

TEST_CASE("then() takes several, with boundaries of the whole run, and nests on either side") {
  auto const expected = [](long t) {
    return t < 3    ? static_cast<double>(t) / 3
           : t < 8  ? 0.5
           : t < 10 ? std::pow(0.9, static_cast<double>(t - 8))
                    : 1 - static_cast<double>(t - 10) / 6;
  };
  auto const last = Linear{1, 0, 6};
  equals(then(LinearWarmup{3}, 3, Constant{0.5}, 8, Exponential{0.9}, 10, last), expected, 16);
  equals(then(then(LinearWarmup{3}, 3, Constant{0.5}), 8, then(Exponential{0.9}, 2, last)), expected, 16);
  equals(then([](long t) { return static_cast<double>(t) / 3; }, 3, Constant{0.5} * Step{100}, 8, Exponential{0.9}, 10,
              last),
         expected, 16);
  static_assert(counts_steps<decltype(then(Constant{}, 2, Step{3}, 4, Cosine{3}))>);
  static_assert(!counts_steps<decltype(then(Constant{}, 2, Step{3}, 4, Exponential{0.5}))>);
}

TEST_CASE("a warm-up of 0 moves is none; a warm-up longer than the run leaves one move for the cosine") {
  equals(LinearWarmup{0}, [](long) { return 1.0; });
  equals(WarmupCosine{0, 4}, [](long t) { return Cosine{4}(t); });
  equals(WarmupCosine{4, 2}, [](long t) { return t < 4 ? 0.25 * static_cast<double>(t + 1) : t == 4 ? 1.0 : 0.0; });
}

TEST_CASE("constants that make no schedule are an Error from the first factor on, wherever they stand") {
  auto const refused = [](auto const& schedule) {
    std::string said;
    CHECK(toy::refusal([&] { schedule(0); }, &said) == "fulgurite.schedule.constants");
    return said;
  };
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refused(Constant{-1e-8}) ==
        "[fulgurite.schedule.constants] schedule::Constant with .factor = -1e-08: it must be finite and not negative");
  CHECK(refused(Step{0}) == "[fulgurite.schedule.constants] schedule::Step with .size = 0: it must be at least 1");
  refused(Step{3, -0.1});
  refused(Exponential{nan});
  refused(Constant{-1});
  refused(MultiStep{{2, 5, 4}});
  refused(MultiStep{{-1, 4}});
  refused(MultiStep{{1}, nan});
  refused(Polynomial{0});
  refused(Polynomial{4, -1});
  refused(Cosine{0});
  refused(Cosine{4, -0.5});
  refused(Linear{.total = 0});
  refused(Linear{.start_factor = -1});
  refused(Linear{.end_factor = nan});
  refused(LinearWarmup{-1});
  refused(LinearWarmup{1, nan});
  refused(WarmupCosine{-1, 4});
  refused(WarmupCosine{0, 0});
  refused(WarmupCosine{1, 4, nan});
  refused(then(Constant{}, -1, Step{2}));
  refused(then(Constant{}, 5, Step{2}, 4, Step{3}));
  CHECK(refused(then(Constant{}, 5, Step{2} * Cosine{0})).find("schedule::Cosine with .total = 0") !=
        std::string::npos);
  refused(Constant{} * then(Constant{}, 5, Step{0}));
}

TEST_CASE("in a fit: those made of steps move each step, the others each epoch") {
  CHECK(rates(Step{1, 0.5}, 2, 3) == std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25});
  CHECK(rates(LinearWarmup{4}, 3, 2) == std::vector<double>{0, 0.25, 0.5, 0.75, 1, 1});
  CHECK(rates(Polynomial{4} * Constant{2}, 4, 1) == std::vector<double>{2, 1.5, 1, 0.5});
  CHECK(rates(MultiStep{{1, 2}, 0.5}, 1, 4) == std::vector<double>{1, 0.5, 0.25, 0.25});
}
