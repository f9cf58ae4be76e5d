// Plateau schedules: which value lowers the rates and which does not, group by group; how a Scheduler drives them; what
// a checkpoint keeps.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"
#include "schedule_state.hpp"

using namespace fulgurite;
using schedule::PlateauOptions;
using schedule::ReduceOnPlateau;
using schedule::ThresholdMode;

namespace {

constexpr Metric<"val/loss"> val_loss{};

/// Two groups with rates of their own.
struct Groups {
  std::vector<double> rates = {1.0, 0.01};
  std::size_t groups() const { return rates.size(); }
  double lr(std::size_t group) const { return rates[group]; }
  void set_lr(std::size_t group, double to) { rates[group] = to; }
};

using Watching = ReduceOnPlateau<Metric<"val/loss">>;
using Plateau = Scheduler<Groups, Watching>;

/// The rate of the first group after each value.
std::vector<double> rates(PlateauOptions options, std::vector<double> const& values, double initial = 1) {
  Groups optimizer{{initial}};
  Plateau scheduler(ReduceOnPlateau{val_loss, options}, {});
  scheduler.attach(optimizer);
  std::vector<double> all;
  for (double const value : values) {
    scheduler.step(value);
    all.push_back(optimizer.rates[0]);
  }
  return all;
}

std::string refused(PlateauOptions options) {
  std::string said;
  CHECK(toy::refusal([&] { ReduceOnPlateau(val_loss, options); }, &said) == "fulgurite.schedule.constants");
  return said;
}

template <class S>
concept steps_alone = requires(S& scheduler) { scheduler.step(); };
template <class S>
concept steps_by_value = requires(S& scheduler) { scheduler.step(0.5); };
template <class... Arguments>
concept makes_plateau = requires(Arguments... arguments) { ReduceOnPlateau{arguments...}; };

}  // namespace

TEST_CASE("W49: a plateau schedule without a metric cannot be written; a step without a value, or with one too many, "
          "neither") {
  static_assert(makes_plateau<Metric<"val/loss">> && makes_plateau<Metric<"val/loss">, PlateauOptions> &&
                makes_plateau<Last<Metric<"val/loss">>>);
  static_assert(!makes_plateau<> && !makes_plateau<PlateauOptions>);
  using Halving = Scheduler<Groups, double (*)(long)>;
  static_assert(steps_by_value<Plateau> && !steps_alone<Plateau> && Plateau::observes);
  static_assert(!steps_by_value<Halving> && steps_alone<Halving> && !Halving::observes);
  static_assert(std::is_same_v<Watching::Watches, MetricTypes<Metric<"val/loss">>>);
  static_assert(ScheduleLike<Watching> && ScheduleLike<double (*)(long)> && !ScheduleLike<double>);
  Plateau const scheduler(ReduceOnPlateau{val_loss, {.strict = false}}, {.name = "drop"});
  CHECK((scheduler.metric().name() == "val/loss" && !scheduler.strict() && scheduler.name() == "drop"));
  CHECK(scheduler.interval() == Interval::epoch);
}

TEST_CASE("patience values without improvement are borne, the next one lowers the rate; then it counts anew") {
  CHECK(rates({.factor = 0.5, .patience = 2}, {5, 5, 5, 5, 5, 5, 5}) ==
        std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25});
  CHECK(rates({.factor = 0.5, .patience = 0}, {5, 5, 4, 4, 3}) == std::vector<double>{1, 0.5, 0.5, 0.25, 0.25});
  CHECK(rates({.factor = 0.5, .patience = 1}, {5, 6, 4, 6, 5, 3}) == std::vector<double>{1, 1, 1, 1, 0.5, 0.5});
  // Lightning's and torch's defaults: a tenth after ten values and one more.
  CHECK(rates({}, std::vector<double>(12, 1.0)) == std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0.1});
}

TEST_CASE("an improvement is larger than the threshold: a part of the best value, or a difference; up or down") {
  // 100 * (1 - 0.1) = 90: 90 is none, 89 is one, and the next must be below 80.1.
  CHECK(rates({.factor = 0.5, .patience = 0, .threshold = 0.1}, {100, 90, 89, 80.2, 80}) ==
        std::vector<double>{1, 0.5, 0.5, 0.25, 0.25});
  CHECK(rates({.factor = 0.5, .patience = 0, .threshold = 1, .threshold_mode = ThresholdMode::abs}, {10, 9, 8.5}) ==
        std::vector<double>{1, 0.5, 0.5});
  CHECK(rates({.mode = Mode::max, .factor = 0.5, .patience = 0, .threshold = 0.5}, {2, 3, 3.5}) ==
        std::vector<double>{1, 0.5, 0.5});
  CHECK(rates({.mode = Mode::max, .factor = 0.5, .patience = 0, .threshold = 0.5, .threshold_mode = ThresholdMode::abs},
              {2, 2.5, 2.6, 2.0}) == std::vector<double>{1, 0.5, 0.5, 0.25});
  // torch's relative threshold turns around below zero: -1 * 0.9 = -0.9, so -1 again counts as better.
  CHECK(rates({.factor = 0.5, .patience = 0, .threshold = 0.1}, {-1, -1, -0.95, -0.8}) ==
        std::vector<double>{1, 1, 1, 0.5});
  CHECK(rates({.factor = 0.5, .patience = 0}, {1, std::numeric_limits<double>::quiet_NaN(), 0.5}) ==
        std::vector<double>{1, 0.5, 0.5});
}

TEST_CASE("in the cooldown after a reduction bad values do not count, good ones do") {
  CHECK(rates({.factor = 0.5, .patience = 0, .cooldown = 2}, {5, 5, 5, 5, 5, 5, 5, 5}) ==
        std::vector<double>{1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125});
  // 4 in the cooldown is the new best: 4.5 after it is bad.
  CHECK(rates({.factor = 0.5, .patience = 0, .cooldown = 1}, {5, 5, 4, 4.5}) == std::vector<double>{1, 0.5, 0.5, 0.25});
}

TEST_CASE("each group falls from its own rate, not below min_lr, and not by less than eps") {
  Groups optimizer;
  Plateau scheduler(ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = 0, .min_lr = 0.004, .eps = 0.002}}, {});
  scheduler.attach(optimizer);
  std::vector<std::vector<double>> seen;
  for (int k = 0; k != 5; ++k) {
    scheduler.step(1);
    seen.push_back(optimizer.rates);
    if (k == 3) optimizer.rates[0] = 3;  // it acts on the rates as they are
  }
  CHECK(seen == std::vector<std::vector<double>>{{1, 0.01}, {0.5, 0.005}, {0.25, 0.005}, {0.125, 0.005}, {1.5, 0.005}});
  CHECK(scheduler.moves() == 5);
}

TEST_CASE("options that make no sense are an Error at once") {
  CHECK(refused({.factor = 1}) == "[fulgurite.schedule.constants] schedule::ReduceOnPlateau with .factor = 1: it "
                                  "must be at least 0 and below 1");
  refused({.factor = -0.1});
  refused({.patience = -1});
  refused({.threshold = -1});
  refused({.cooldown = -1});
  refused({.min_lr = -1});
  refused({.eps = std::numeric_limits<double>::quiet_NaN()});
}

TEST_CASE("a resumed plateau goes on where it was: best value, bad values, cooldown, rates") {
  PlateauOptions const options{.factor = 0.5, .patience = 1, .cooldown = 2};
  std::vector<double> const values{5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3};
  for (std::size_t cut = 0; cut != values.size(); ++cut) {
    CAPTURE(cut);
    Groups whole, first, second;
    Plateau uninterrupted(ReduceOnPlateau{val_loss, options}, {}), before(ReduceOnPlateau{val_loss, options}, {}),
        after(ReduceOnPlateau{val_loss, options}, {});
    uninterrupted.attach(whole);
    before.attach(first);
    after.attach(second);
    for (double const value : values) uninterrupted.step(value);
    for (std::size_t k = 0; k != cut; ++k) before.step(values[k]);
    probe::resume_from(before, after);
    CHECK(second.rates == first.rates);
    for (std::size_t k = cut; k != values.size(); ++k) after.step(values[k]);
    CHECK(second.rates == whole.rates);
    CHECK(after.moves() == uninterrupted.moves());
    CHECK(after.schedule().best() == 3);
    CHECK(after.schedule().num_bad_epochs() == uninterrupted.schedule().num_bad_epochs());
  }
}

TEST_CASE("a retired scheduler is never due again, also after a resume") {
  Groups optimizer, other;
  Scheduler<Groups, schedule::Constant> scheduler({}, {.frequency = 2}), resumed({}, {.frequency = 2});
  scheduler.attach(optimizer);
  resumed.attach(other);
  CHECK((!scheduler.due(0, 1) && scheduler.due(1, 2) && scheduler.due(3, 5)));
  scheduler.retire();
  CHECK((!scheduler.due(2, 3) && !scheduler.due(3, 4)));
  probe::resume_from(scheduler, resumed);
  CHECK((!resumed.due(2, 3) && !resumed.due(3, 4)));
}

TEST_CASE("a loaded scheduler sets the saved rates, bit for bit, also those that somebody changed by hand") {
  Groups optimizer, other;
  Scheduler<Groups, schedule::Exponential> scheduler({0.7}, {}), resumed({0.7}, {});
  scheduler.attach(optimizer);
  resumed.attach(other);
  scheduler.step();
  optimizer.rates[1] = 0.123;
  probe::resume_from(scheduler, resumed);
  CHECK(other.rates == std::vector<double>{1.0 * std::pow(0.7, 1.0), 0.123});
  resumed.step();
  CHECK(other.rates[0] == 1.0 * std::pow(0.7, 2.0));  // from the saved initial rate
}

TEST_CASE("groups that were added to the optimizer after the schedule are no business of it; fewer than it moves are "
          "an Error") {
  using Halving = Scheduler<Groups, schedule::Exponential>;
  Groups one{{1}}, fewer{};
  Halving scheduler({0.5}, {}), after({0.5}, {}), misfit({0.5}, {});
  scheduler.attach(one);
  one.rates.push_back(0.25);
  scheduler.step();
  CHECK(one.rates == std::vector<double>{0.5, 0.25});

  Groups again{{1}};
  after.attach(again);
  probe::resume_from(scheduler, after);  // the second group is not there yet
  CHECK(again.rates == std::vector<double>{0.5});
  again.rates.push_back(0.7);
  probe::resume_from(scheduler, after);  // now it is
  CHECK(again.rates == std::vector<double>{0.5, 0.25});
  after.step();
  CHECK(again.rates == std::vector<double>{0.25, 0.25});

  fewer.rates.clear();
  misfit.attach(fewer);
  CHECK(toy::refusal([&] { probe::resume_from(scheduler, misfit); }) == "fulgurite.schedule.groups");
}
