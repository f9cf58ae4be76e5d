// Schedules that go up and down against the formulae of torch.optim.lr_scheduler, and by hand.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"
#include "schedule_state.hpp"

using namespace fulgurite::schedule;

namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-12; }

template <class S>
void follows(S const& schedule, std::vector<double> const& factors) {
  static_assert(Schedule<S> && counts_steps<S>);
  for (std::size_t t = 0; t != factors.size(); ++t) {
    CAPTURE(t);
    CHECK(near(schedule(static_cast<long>(t)), factors[t]));
  }
}

/// A cosine from `a` to `b`, `part` of the way.
double eased(double a, double b, double part) { return (a + b) / 2 + (a - b) / 2 * std::cos(std::numbers::pi * part); }

/// CosineAnnealingWarmRestarts as torch steps it: a counter that is set back, a length that grows.
std::vector<double> restarts(int first, int growth, double least, int moves) {
  std::vector<double> all;
  for (int t = 0, at = 0, length = first; t != moves; ++t) {
    all.push_back(eased(1, least, static_cast<double>(at) / length));
    if (++at == length) at = 0, length *= growth;
  }
  return all;
}

/// The very bits: the values were printed by the source of torch.optim.lr_scheduler (2.11).
template <class S>
void momentum_is(S const& schedule, std::vector<double> const& momenta) {
  static_assert(MomentumSchedule<S>);
  for (std::size_t t = 0; t != momenta.size(); ++t) {
    CAPTURE(t);
    CHECK(schedule.momentum(static_cast<long>(t)) == momenta[t]);
  }
}

/// Gradient descent whose momentum can be set.
struct Heavy : toy::Sgd {
  std::vector<double> heard = {};
  double momentum(std::size_t) const { return toy::Sgd::momentum; }
  void set_momentum(std::size_t, double value) {
    toy::Sgd::momentum = value;
    heard.push_back(value);
  }
};
template <class S>
struct Cycled {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  S schedule;
  double momentum = 0.9;
  std::vector<double> used = {};
  toy::Tensor training_step(double) { return -p; }
  void on_before_optimizer_step(auto& ctx) { used.push_back(ctx.optimizer().momentum(0)); }
  auto configure_optimizers() {
    Heavy heavy;
    heavy.params = {p};
    heavy.toy::Sgd::momentum = momentum;
    return fulgurite::scheduled(std::move(heavy), schedule);
  }
};
template <class S>
std::vector<double> momenta_used(S schedule, int steps, double momentum = 0.9) {
  Cycled<S> model{.schedule = schedule, .momentum = momentum};
  toy::train<Cycled<S>>({.max_epochs = 1}, fulgurite::Automatic{}).fit(model, toy::batches(steps));
  return model.used;
}

template <class S>
std::string refused(S const& schedule) {
  std::string said;
  CHECK(toy::refusal([&] { schedule(0); }, &said) == "fulgurite.schedule.constants");
  return said;
}

}  // namespace

TEST_CASE("OneCycle by lines: 10 moves, up in 3, by hand") {
  // 25 and 10 divide the top: from 0.04 to 1 over moves 0..2, to 0.004 over 2..9, and there it stays.
  OneCycle const cycle{.total = 10, .anneal = OneCycle::Anneal::linear, .final_div_factor = 10};
  std::vector<double> factors{0.04, 0.52, 1};
  for (int k = 1; k <= 7; ++k) factors.push_back(1 - 0.996 * k / 7);
  factors.insert(factors.end(), 3, 0.004);
  follows(cycle, factors);
}

TEST_CASE("OneCycle by cosines, where the top lies between two moves") {
  // torch: the rise ends at 0.3 * 12 - 1 = 2.6, the fall at 11.
  std::vector<double> factors;
  for (int t = 0; t != 12; ++t) factors.push_back(t <= 2 ? eased(0.04, 1, t / 2.6) : eased(1, 4e-6, (t - 2.6) / 8.4));
  follows(OneCycle{.total = 12}, factors);
  CHECK(near(OneCycle{.total = 12}(11), 0.04 / 1e4));
}

TEST_CASE("OneCycle with three phases: down as fast as up, then on to the end") {
  // 0.25 * 20: the top at move 4, the start again at move 8, the end at 19.
  OneCycle cycle{.total = 20, .pct_start = 0.25, .div_factor = 10, .final_div_factor = 100, .three_phase = true};
  std::vector<double> by_cosine, by_line;
  for (int t = 0; t != 20; ++t) {
    by_cosine.push_back(t <= 4   ? eased(0.1, 1, t / 4.0)
                        : t <= 8 ? eased(1, 0.1, (t - 4) / 4.0)
                                 : eased(0.1, 0.001, (t - 8) / 11.0));
    by_line.push_back(t <= 4 ? 0.1 + 0.9 * t / 4 : t <= 8 ? 1 - 0.9 * (t - 4) / 4 : 0.1 - 0.099 * (t - 8) / 11);
  }
  follows(cycle, by_cosine);
  cycle.anneal = OneCycle::Anneal::linear;
  follows(cycle, by_line);
}

TEST_CASE("OneCycle of one or two moves, or without a rise, has factors all the same") {
  follows(OneCycle{.total = 1}, {4e-6, 4e-6});
  follows(OneCycle{.total = 2, .pct_start = 0.5}, {1, 4e-6, 4e-6});
  follows(
      OneCycle{.total = 4, .pct_start = 0, .anneal = OneCycle::Anneal::linear, .div_factor = 1, .final_div_factor = 2},
      {0.875, 0.75, 0.625, 0.5});  // torch's fall then begins one move before the first
}

TEST_CASE("Cyclic: triangles between the rate and its peak, three shapes") {
  follows(Cyclic{.peak = 5, .step_size_up = 2}, {1, 3, 5, 3, 1, 3, 5, 3, 1});
  follows(Cyclic{.peak = 5, .step_size_up = 1, .step_size_down = 4}, {1, 5, 4, 3, 2, 1, 5, 4});
  follows(Cyclic{.peak = 5, .step_size_up = 2, .shape = Cyclic::Shape::triangular2},
          {1, 3, 5, 3, 1, 2, 3, 2, 1, 1.5, 2, 1.5, 1});
  follows(Cyclic{.peak = 5, .step_size_up = 2, .shape = Cyclic::Shape::exp_range, .gamma = 0.5},
          {1, 1 + 2 * 0.5, 1 + 4 * 0.25, 1 + 2 * 0.125, 1, 1 + 2 / 32.0, 1 + 4 / 64.0});
  CHECK(Cyclic{.peak = 3}(2000) == 3);
  CHECK(Cyclic{.peak = 3}(4000) == 1);
}

TEST_CASE("the momentum of OneCycle is PyTorch's, bit for bit") {
  momentum_is(OneCycle{.total = 12},
              {0x1.e666666666666p-1, 0x1.d5e0bd1415bf0p-1, 0x1.b9a35c2663db2p-1, 0x1.b37c65f6cf032p-1,
               0x1.b6a137461fc2ap-1, 0x1.bcd6b27df674fp-1, 0x1.c54117ad5b9b5p-1, 0x1.ceb68d17991b3p-1,
               0x1.d7e84cebc7118p-1, 0x1.df90edc260c91p-1, 0x1.e4a15fcb835fap-1, 0x1.e666666666666p-1});
  momentum_is(OneCycle{.total = 10, .anneal = OneCycle::Anneal::linear},
              {0x1.e666666666666p-1, 0x1.cccccccccccccp-1, 0x1.b333333333333p-1, 0x1.ba83a83a83a83p-1,
               0x1.c1d41d41d41d4p-1, 0x1.c924924924924p-1, 0x1.d075075075075p-1, 0x1.d7c57c57c57c5p-1,
               0x1.df15f15f15f16p-1, 0x1.e666666666666p-1});
  momentum_is(OneCycle{.total = 20, .pct_start = 0.25, .base_momentum = 0.8, .max_momentum = 0.9, .three_phase = true},
              {0x1.ccccccccccccdp-1, 0x1.c54d4b8532964p-1, 0x1.b333333333334p-1, 0x1.a1191ae133d03p-1,
               0x1.999999999999ap-1, 0x1.a1191ae133d03p-1, 0x1.b333333333334p-1, 0x1.c54d4b8532964p-1,
               0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1,
               0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1,
               0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1, 0x1.ccccccccccccdp-1});
}

TEST_CASE("the momentum of Cyclic is PyTorch's, bit for bit") {
  momentum_is(Cyclic{.peak = 2, .step_size_up = 3, .step_size_down = 4},
              {0x1.ccccccccccccdp-1, 0x1.bbbbbbbbbbbbcp-1, 0x1.aaaaaaaaaaaabp-1, 0x1.999999999999ap-1,
               0x1.a666666666667p-1, 0x1.b333333333334p-1, 0x1.c000000000000p-1, 0x1.ccccccccccccdp-1,
               0x1.bbbbbbbbbbbbcp-1, 0x1.aaaaaaaaaaaabp-1, 0x1.999999999999ap-1, 0x1.a666666666666p-1,
               0x1.b333333333334p-1, 0x1.c000000000000p-1, 0x1.ccccccccccccdp-1});
  momentum_is(Cyclic{.peak = 2, .step_size_up = 2, .shape = Cyclic::Shape::triangular2},
              {0x1.ccccccccccccdp-1, 0x1.b333333333334p-1, 0x1.999999999999ap-1, 0x1.b333333333334p-1,
               0x1.ccccccccccccdp-1, 0x1.c000000000000p-1, 0x1.b333333333334p-1, 0x1.c000000000000p-1,
               0x1.ccccccccccccdp-1, 0x1.c666666666667p-1});
  momentum_is(Cyclic{.peak = 2,
                     .step_size_up = 3,
                     .shape = Cyclic::Shape::exp_range,
                     .gamma = 0.99,
                     .base_momentum = 0.7,
                     .max_momentum = 0.93},
              {0x1.dc28f5c28f5c3p-1, 0x1.b54c985f06f69p-1, 0x1.8f37329c347e9p-1, 0x1.69e5c871486cap-1,
               0x1.90bf2ee3f505cp-1, 0x1.b6d499b83629cp-1, 0x1.dc28f5c28f5c3p-1, 0x1.b792c5a338804p-1,
               0x1.93b7e865c9c7ap-1, 0x1.70958eb7838d9p-1, 0x1.9528f44fbfe34p-1, 0x1.b903d652b0574p-1,
               0x1.dc28f5c28f5c3p-1});
}

TEST_CASE("a fit moves the momentum with the rate: from the first step on, and not where cycle_momentum is off") {
  OneCycle const cycle{.total = 4, .anneal = OneCycle::Anneal::linear};
  std::vector<double> expected;
  for (long t = 0; t != 4; ++t) expected.push_back(*cycle.momentum(t));
  CHECK(momenta_used(cycle, 4) == expected);
  CHECK(expected.front() != expected[1]);
  OneCycle const off{.total = 4, .cycle_momentum = false};
  CHECK(momenta_used(off, 3) == std::vector<double>(3, 0.9));
  CHECK(momenta_used(off, 3, 0.0) == std::vector<double>(3, 0.0));
  CHECK(momenta_used(rate_only(cycle), 3) == std::vector<double>(3, 0.9));
}

TEST_CASE("the momentum of sequences and products") {
  Cyclic const cycle{.peak = 2, .step_size_up = 2};
  CHECK(momenta_used(then(LinearWarmup{2}, 2, cycle), 4) ==
        std::vector<double>{0.9, 0.9, *cycle.momentum(0), *cycle.momentum(1)});
  CHECK(momenta_used(then(cycle, 2, Constant{}), 4) ==
        std::vector<double>{*cycle.momentum(0), *cycle.momentum(1), *cycle.momentum(1), *cycle.momentum(1)});
  CHECK(momenta_used(cycle * LinearWarmup{2}, 2) == std::vector<double>{*cycle.momentum(0), *cycle.momentum(1)});
}

TEST_CASE("a schedule that moves the momentum of an optimizer made without one is an Error before training") {
  std::string said;
  OneCycle const cycle{.total = 4};
  CHECK(toy::refusal([&] { momenta_used(cycle, 1, 0.0); }, &said) == "fulgurite.schedule.zero_momentum");
  CHECK(said.find("cycle_momentum = false") != std::string::npos);
  CHECK(toy::refusal([&] { momenta_used(then(LinearWarmup{2}, 2, cycle), 1, 0.0); }) ==
        "fulgurite.schedule.zero_momentum");
}

TEST_CASE("the momentum of a saved schedule is there again when it is loaded") {
  using fulgurite::Scheduler;
  Cyclic const cycle{.peak = 2, .step_size_up = 3};
  Heavy optimizer, another;
  optimizer.toy::Sgd::momentum = another.toy::Sgd::momentum = 0.5;
  Scheduler<Heavy, Cyclic> scheduler(cycle, {}), loaded(cycle, {});
  scheduler.attach(optimizer);
  for (int i = 0; i != 2; ++i) scheduler.step();
  loaded.attach(another);
  probe::resume_from(scheduler, loaded);
  CHECK(another.momentum(0) == *cycle.momentum(2));
  CHECK(another.lr(0) == optimizer.lr(0));
}

TEST_CASE("CosineRestarts: cycles of one length, or each longer than the one before") {
  follows(CosineRestarts{4}, restarts(4, 1, 0, 30));
  follows(CosineRestarts{3, 2, 0.2}, restarts(3, 2, 0.2, 60));
  CHECK(CosineRestarts{.first = 10}(1000L * 1000 * 1000 * 1000 * 1000 * 1000) ==
        1);  // without going through the cycles one by one
  follows(CosineRestarts{2} * LinearWarmup{2}, {0, 0.25, 1, 0.5});
  follows(then(Cyclic{.peak = 2, .step_size_up = 1}, 2, CosineRestarts{2}, 4, OneCycle{.total = 1}),
          {1, 2, 1, 0.5, 4e-6});
}

TEST_CASE("cycles that make no sense are an Error") {
  CHECK(refused(OneCycle{.total = 0}) ==
        "[fulgurite.schedule.constants] schedule::OneCycle with .total = 0: it must be at least 1");
  refused(OneCycle{.total = 9, .pct_start = 1.5});
  refused(OneCycle{.total = 9, .pct_start = 0.6, .three_phase = true});
  refused(OneCycle{.total = 9, .div_factor = 0});
  refused(OneCycle{.total = 9, .final_div_factor = -1});
  refused(Cyclic{.peak = -1});
  refused(Cyclic{.peak = 2, .step_size_up = 0});
  refused(Cyclic{.peak = 2, .step_size_down = -1});
  refused(Cyclic{.peak = 2, .gamma = -1});
  refused(Cyclic{.peak = 2, .max_momentum = 1});
  refused(OneCycle{.total = 9, .base_momentum = -0.1});
  CHECK(OneCycle{.total = 9, .cycle_momentum = false, .base_momentum = -0.1}(8) > 0);
  refused(CosineRestarts{0});
  refused(CosineRestarts{2, 0});
  refused(CosineRestarts{2, 1, -1});
}
