// Schedules that go up and down against the formulae of torch.optim.lr_scheduler, and by hand.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <fulgurite/schedule/cycle.hpp>
#include <fulgurite/schedule/warmup.hpp>

#include "models.hpp"

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
    by_cosine.push_back(t <= 4 ? eased(0.1, 1, t / 4.0) : t <= 8 ? eased(1, 0.1, (t - 4) / 4.0) : eased(0.1, 0.001, (t - 8) / 11.0));
    by_line.push_back(t <= 4 ? 0.1 + 0.9 * t / 4 : t <= 8 ? 1 - 0.9 * (t - 4) / 4 : 0.1 - 0.099 * (t - 8) / 11);
  }
  follows(cycle, by_cosine);
  cycle.anneal = OneCycle::Anneal::linear;
  follows(cycle, by_line);
}

TEST_CASE("OneCycle of one or two moves, or without a rise, has factors all the same") {
  follows(OneCycle{.total = 1}, {4e-6, 4e-6});
  follows(OneCycle{.total = 2, .pct_start = 0.5}, {1, 4e-6, 4e-6});
  follows(OneCycle{.total = 4, .pct_start = 0, .anneal = OneCycle::Anneal::linear, .div_factor = 1, .final_div_factor = 2},
          {0.875, 0.75, 0.625, 0.5});  // torch's fall then begins one move before the first
}

TEST_CASE("Cyclic: triangles between the rate and its peak, three shapes") {
  follows(Cyclic{.peak = 5, .step_size_up = 2}, {1, 3, 5, 3, 1, 3, 5, 3, 1});
  follows(Cyclic{.peak = 5, .step_size_up = 1, .step_size_down = 4}, {1, 5, 4, 3, 2, 1, 5, 4});
  follows(Cyclic{.peak = 5, .step_size_up = 2, .shape = Cyclic::Shape::triangular2}, {1, 3, 5, 3, 1, 2, 3, 2, 1, 1.5, 2, 1.5, 1});
  follows(Cyclic{.peak = 5, .step_size_up = 2, .shape = Cyclic::Shape::exp_range, .gamma = 0.5},
          {1, 1 + 2 * 0.5, 1 + 4 * 0.25, 1 + 2 * 0.125, 1, 1 + 2 / 32.0, 1 + 4 / 64.0});
  CHECK(Cyclic{.peak = 3}(2000) == 3);
  CHECK(Cyclic{.peak = 3}(4000) == 1);
}

TEST_CASE("CosineRestarts: cycles of one length, or each longer than the one before") {
  follows(CosineRestarts{4}, restarts(4, 1, 0, 30));
  follows(CosineRestarts{3, 2, 0.2}, restarts(3, 2, 0.2, 60));
  CHECK(CosineRestarts{.first = 10}(1000L * 1000 * 1000 * 1000 * 1000 * 1000) == 1);  // without going through the cycles one by one
  follows(CosineRestarts{2} * LinearWarmup{2}, {0, 0.25, 1, 0.5});
  follows(then(Cyclic{.peak = 2, .step_size_up = 1}, 2, CosineRestarts{2}, 4, OneCycle{.total = 1}), {1, 2, 1, 0.5, 4e-6});
}

TEST_CASE("cycles that make no sense are an Error") {
  CHECK(refused(OneCycle{.total = 0}) == "[fulgurite.schedule.constants] schedule::OneCycle with .total = 0: it takes 1 or more moves");
  refused(OneCycle{.total = 9, .pct_start = 1.5});
  refused(OneCycle{.total = 9, .pct_start = 0.6, .three_phase = true});
  refused(OneCycle{.total = 9, .div_factor = 0});
  refused(OneCycle{.total = 9, .final_div_factor = -1});
  refused(Cyclic{.peak = -1});
  refused(Cyclic{.peak = 2, .step_size_up = 0});
  refused(Cyclic{.peak = 2, .step_size_down = -1});
  refused(Cyclic{.peak = 2, .gamma = -1});
  refused(CosineRestarts{0});
  refused(CosineRestarts{2, 0});
  refused(CosineRestarts{2, 1, -1});
}
