// The learning rate that a search finds: its arithmetic, where it goes, and what fit and schedules make of it.
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "models.hpp"

using namespace fulgurite;

namespace {

/// Falls to 0 the faster the higher the rate, and diverges above 1; two groups, the second at a tenth of the rate.
struct Bowl {
  double lr = 0.5;
  double least = 0;  ///< the loss at the bottom
  toy::Tensor p = toy::Tensor::parameter(10.0), q = toy::Tensor::parameter(10.0);
  std::vector<std::vector<double>> rates = {};
  std::vector<toy::Tensor> parameters() const { return {p, q}; }
  toy::Tensor training_step(double) { return p * p + q * q + toy::Tensor(least); }
  void on_before_optimizer_step(auto& ctx) {
    auto& optimizer = ctx.optimizer();
    rates.push_back({optimizer.lr(0), optimizer.lr(1)});
  }
  toy::Sgd two_groups() const {
    toy::Sgd optimizer{.params = {p}, .rate = lr};
    optimizer.add_group({q}, lr / 10);
    return optimizer;
  }
  auto configure_optimizers() { return two_groups(); }
};
struct Halving : Bowl {
  auto configure_optimizers() {
    return scheduled(
        two_groups(), [](long n) { return std::pow(0.5, static_cast<double>(n)); },
        ScheduleOptions{.interval = Interval::step});
  }
};
struct None : Bowl {
  auto configure_optimizers() { return NoOptimizer{}; }
  void on_before_optimizer_step() {}
};
struct Steady : Bowl {
  double lr_of_others = 0, unused = 0;
};

TrainerOptions options(int epochs) { return {.max_epochs = epochs, .silence = {"fulgurite.tuner.no_suggestion"}}; }
tune::RateSearch<Bowl> short_search() {
  return {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 8, .skip_begin = 0, .update = &Bowl::lr};
}

std::string text_of(std::filesystem::path const& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the suggestion is where the loss falls the fastest: by the parabola inside, by the line at both ends") {
  tune::RateCurve curve;
  double before = 0, weight = 1;
  for (double const average : {10.0, 7.0, 6.5, 1.5, 2.0, -1.0, 0.5, 9.0}) {  // the losses whose averages these are
    double const now = average * (1 - (weight *= 0.98));
    curve.add(std::pow(10.0, static_cast<double>(curve.lr.size())), (now - 0.98 * std::exchange(before, now)) / 0.02);
  }
  CHECK(curve.corrected().front() == Catch::Approx(10));
  CHECK(curve.corrected().back() == Catch::Approx(9));
  auto const point = [&](std::size_t begin, std::size_t end) { return curve.suggestion(begin, end).point; };
  CHECK(point(0, 0) == 0);
  CHECK(point(1, 0) == 2);  // slopes of -0.5, -2.75, -2.25, -1.25 and less
  CHECK(point(3, 1) == 4);
  CHECK(point(3, 2) == 5);
  CHECK(*curve.suggestion(1, 0) == 100);
  CHECK(curve.suggestion(5, 0).why == "the averaged loss falls at none of these rates");
  CHECK(!curve.suggestion());  // 10 points are skipped
  CHECK(!curve.suggestion(100, 100));
  CHECK(curve.suggestion(6, 1).why ==
        "8 points, of which the first 6 and the last 1 are left out, leave 1 finite ones, and a slope takes 2");
}

TEST_CASE("where rates rise by a factor, noise of the flat part on the left is not the steepest fall") {
  tune::RateCurve curve;
  for (std::size_t i = 0; i != 100; ++i) {
    double const flat = i % 3 == 0 ? 1.05 : 0.98, x = static_cast<double>(i);
    curve.add(1e-8 * std::pow(10.0, x / 12.5), i < 60 ? flat : i < 85 ? 1 - 0.03 * (x - 60) : 0.25 + 0.2 * (x - 85));
  }
  auto const found = curve.suggestion();
  REQUIRE(found);
  CHECK(found.point > 60);
  CHECK(found.point < 86);
}

TEST_CASE("points that are not finite are left out, and a step without a loss is no part of the average") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  tune::RateCurve with, without;
  with.add(0.1, 3.0);
  with.add(0.2, std::nullopt);
  with.add(0.3, 2.0);
  with.add(0.4, nan);
  without.add(0.1, 3.0);
  without.add(0.3, 2.0);
  CHECK(std::isnan(with.loss[1]));
  CHECK(with.loss[2] == without.loss[1]);
  CHECK(with.suggestion(0, 0).point == 0);
  CHECK(with.suggestion(0, 0).lr == 0.1);
  auto const all = with.loss;
  with.shorten(9);
  CHECK(with.loss.size() == 4);
  with.shorten(3);
  CHECK(with.loss.size() == 3);
  CHECK(with.loss[2] == all[2]);
  CHECK(with.best().value() == without.loss[0]);
  CHECK(!tune::RateCurve().best());
}

TEST_CASE("several groups keep their ratio while rates rise, and in the fit that follows") {
  Bowl model;
  auto trainer = toy::train<Bowl>(options(9), Automatic{});
  auto const found = tune::lr_find(trainer, model, toy::batches(4), short_search());
  REQUIRE(found.lr.size() == 8);
  for (std::size_t i = 0; i != 8; ++i)
    CHECK(model.rates[i] == std::vector{found.lr[i], found.lr[i] * ((0.5 / 10) / 0.5)});
  REQUIRE(found.suggested);
  CHECK(model.lr == *found.suggested);
  model.rates.clear();
  trainer.fit(model, toy::batches(4));
  CHECK(model.rates.front() == std::vector{model.lr, model.lr / 10});
}

TEST_CASE("a loss below 0 has no multiple at which it has diverged") {
  Bowl model{.least = -1000};
  auto trainer = toy::train<Bowl>(options(9), Automatic{});
  auto const found = tune::lr_find(trainer, model, toy::batches(4),
                                   {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 8, .skip_begin = 0});
  CHECK(found.lr.size() == 8);
  CHECK(found.ended.empty());
  CHECK(found.suggested);
}

TEST_CASE("a callback sets the rates of the fit at hand, from which its schedule starts") {
  Halving model;
  auto trainer = toy::train<Halving>(
      options(3), Automatic{},
      LearningRateFinder<Halving>{{.search = {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 8, .skip_begin = 0}}});
  trainer.fit(model, toy::batches(4));
  auto const& found = trainer.callback<LearningRateFinder>().results();
  REQUIRE(found.suggested);
  CHECK(found.lr.size() == 8);
  CHECK(model.lr == *found.suggested);
  REQUIRE(model.rates.size() == 8 + 12);
  for (std::size_t i = 0; i != 8; ++i) CHECK(model.rates[i][0] == found.lr[i]);  // the schedule stood still
  for (std::size_t i = 0; i != 12; ++i) {
    CHECK(model.rates[8 + i][0] == *found.suggested * std::pow(0.5, static_cast<double>(i)));
    CHECK(model.rates[8 + i][1] == *found.suggested * ((0.5 / 10) / 0.5) * std::pow(0.5, static_cast<double>(i)));
  }
}

TEST_CASE("a resumed fit puts the rate that was found into the model") {
  Bowl searched, other;
  auto trainer = toy::train<Bowl>(options(2), Automatic{}, LearningRateFinder<Bowl>{{.search = short_search()}});
  trainer.fit(searched, toy::batches(4));
  REQUIRE(searched.lr != other.lr);
  auto later = toy::train<Bowl>(options(3), Automatic{}, LearningRateFinder<Bowl>{{.search = short_search()}});
  later.fit(other, toy::batches(4), snapshot(trainer));
  CHECK(other.lr == searched.lr);
  CHECK_FALSE(later.callback<LearningRateFinder>().results().suggested);  // it did not search again
}

namespace {

/// Is steeper in the search of the start, and has no slope in those from epoch 6 on.
struct Flattens : Bowl {
  toy::Tensor training_step(double x, auto& ctx) {
    double const slope = !ctx.rehearsing() ? 1 : ctx.current_epoch() < 4 ? 80 : ctx.current_epoch() < 6 ? 1 : 0;
    return Bowl::training_step(x) * toy::Tensor(slope);
  }
};
/// Keeps its rate as a float.
struct Single {
  float lr = 0.1F;
  toy::Tensor p = toy::Tensor::parameter(10.0);
  std::vector<double> rates = {};
  std::vector<toy::Tensor> parameters() const { return {p}; }
  toy::Tensor training_step(double) { return p * p; }
  void on_train_batch_end(auto& ctx) {
    if (!ctx.rehearsing()) rates.push_back(ctx.optimizer().lr(0));
  }
  toy::Sgd configure_optimizers() const { return {{p}, double{lr}}; }
};
bool spoke_of_options(auto const& trainer) {
  return std::ranges::any_of(trainer.warnings(),
                             [](auto const& one) { return one.find("[fulgurite.resume.options]") != one.npos; });
}

}  // namespace

TEST_CASE("a search that finds nothing leaves a resumed fit the rate of the search before it") {
  Flattens model;
  auto trainer = toy::train<Flattens>(
      options(3), Automatic{},
      LearningRateFinder<Flattens>{
          {.search = {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 8, .skip_begin = 0}, .milestones = {4, 6}}});
  trainer.fit(model, toy::batches(4));
  auto const first = model.lr;
  trainer.set_options(options(8));
  trainer.fit(model, toy::batches(4), snapshot(trainer));
  REQUIRE(model.lr != first);
  REQUIRE_FALSE(trainer.callback<LearningRateFinder>().results().suggested);
  CHECK(model.rates.back() == std::vector{model.lr, model.lr * ((0.5 / 10) / 0.5)});
}

TEST_CASE("a rate that was found is no other one where the model has rounded it, or makes those of its groups of it") {
  Single rounded;
  auto trainer = toy::train<Single>(
      options(1), Automatic{},
      LearningRateFinder<Single>{{.search = {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 8, .skip_begin = 0}}});
  trainer.fit(rounded, toy::batches(8));
  auto const found = *trainer.callback<LearningRateFinder>().results().suggested;
  REQUIRE(double{rounded.lr} != found);
  trainer.set_options(options(2));
  trainer.fit(rounded, toy::batches(8), snapshot(trainer));
  CHECK(rounded.rates == std::vector<double>(16, found));
  CHECK_FALSE(spoke_of_options(trainer));
  for (double const given : {0.3, 0.5, 0.7}) {
    Bowl model{.lr = given};
    auto of_groups = toy::train<Bowl>(options(1), Automatic{}, LearningRateFinder<Bowl>{{.search = short_search()}});
    of_groups.fit(model, toy::batches(8));
    auto const rates = model.rates.back();
    of_groups.set_options(options(2));
    of_groups.fit(model, toy::batches(8), snapshot(of_groups));
    CHECK(model.rates.back() == rates);
    CHECK_FALSE(spoke_of_options(of_groups));
  }
}

TEST_CASE("training with a rate that was found has the bits of training with that rate from the start") {
  Bowl searched, given;
  auto trainer = toy::train<Bowl>(options(3), Automatic{}, LearningRateFinder<Bowl>{{.search = short_search()}});
  trainer.fit(searched, toy::batches(4));
  given.lr = *trainer.callback<LearningRateFinder>().results().suggested;
  auto plain = toy::train<Bowl>(options(3), Automatic{});
  plain.fit(given, toy::batches(4));
  CHECK(searched.p.value() == given.p.value());
}

namespace {

/// Which steps are made when: "." a step of training, "?" one that is tried out.
struct Times : Bowl {
  std::string times = {};
  bool fails = false;  ///< the first fit, when it has heard of the finder's search
  void on_fit_start(auto&) {
    if (std::exchange(fails, false)) throw std::runtime_error("not yet");
  }
  void on_train_batch_end(auto& ctx) { times += ctx.rehearsing() ? '?' : '.'; }
  void validation_step(double) { times += 'v'; }
};
struct Later : LearningRateFinder<Times> {
  using LearningRateFinder::LearningRateFinder;
  void on_fit_start(auto&) {}
};
std::optional<CkptPath> const anew = std::nullopt;
tune::RateSearch<Times> two_steps() { return {.num_training = 2, .skip_begin = 0, .skip_end = 0}; }

}  // namespace

TEST_CASE("milestones search again, and a class derived from the finder searches when it likes") {
  Times model, derived;
  auto trainer = toy::train<Times>(options(4), Automatic{},
                                   LearningRateFinder<Times>{{.search = two_steps(), .milestones = {1, 3}}});
  trainer.fit(model, toy::batches(2), NoValidation{}, anew);
  CHECK(model.times == "??..??....??..");
  trainer.set_options(options(5));
  trainer.fit(model, toy::batches(2), NoValidation{}, anew);  // a fit that starts anew searches anew
  CHECK(model.times == "??..??....??..??..");

  auto later = toy::train<Times>(options(3), Automatic{}, Later{{.search = two_steps(), .milestones = {0, 2}}});
  later.fit(derived, toy::batches(2), NoValidation{}, anew);
  CHECK(derived.times == "??....??..");
}

namespace {

/// Searches before each evaluation.
struct InEvaluations : LearningRateFinder<Times> {
  void setup(auto& ctx) {
    if (ctx.stage() != Stage::fit) lr_find(ctx);
  }
};

}  // namespace

TEST_CASE("a search that a fit asked for which failed while it opened is done by no other run") {
  for (bool const validates : {true, false}) {
    Times model;
    model.fails = true;
    auto trainer = toy::train<Times>(options(1), Automatic{}, LearningRateFinder<Times>{{.search = two_steps()}});
    CHECK_THROWS_AS(trainer.fit(model, toy::batches(2), NoValidation{}, anew), std::runtime_error);
    if (validates) trainer.validate(model, toy::batches(1));
    trainer.fit(model, toy::batches(2), NoValidation{}, anew);
    CHECK(model.times == (validates ? "v??.." : "??.."));
  }
}

TEST_CASE("an evaluation has no rate that could be searched for, and says so") {
  Times model;
  auto trainer = toy::train<Times>(options(1), Automatic{}, InEvaluations{});
  std::string sentence;
  CHECK(toy::refusal([&] { trainer.validate(model, toy::batches(2)); }, &sentence) == "fulgurite.tuner.no_rate");
  CHECK(sentence.find("an evaluation moves no learning rates") != std::string::npos);
  CHECK(model.times.empty());
}

TEST_CASE("a fit that goes on from a file has what was found, and searches at the milestones that are left") {
  toy::world = {};
  auto const finder = [] { return LearningRateFinder<Times>{{.search = two_steps(), .milestones = {1, 2}}}; };
  Times whole, stopped;
  auto trainer = toy::train<Times>(options(3), Automatic{}, finder());
  trainer.fit(whole, toy::batches(2), NoValidation{}, anew);
  auto first = toy::train<Times>(options(1), Automatic{}, finder());
  first.fit(stopped, toy::batches(2), NoValidation{}, anew);
  first.save_checkpoint("first");
  Times rest;
  auto second = toy::train<Times>(options(3), Automatic{}, finder());
  second.fit(rest, toy::batches(2), NoValidation{}, std::optional(CkptPath{"first"}));
  CHECK(stopped.times + rest.times == whole.times);
  CHECK(rest.p.value() == whole.p.value());
  CHECK(rest.times == "??..??..");
}

namespace {

struct Base {
  float rate = 0.1F;
};
struct Inherits : Bowl, Base {
  struct {
    double of_all = 0;
  } nested = {};
};
struct Learning : toy::P {
  double learning_rate = 0.5;
};

}  // namespace

TEST_CASE("the rate goes into lr, learning_rate, a member that is named, one that a function finds, or nowhere") {
  Inherits model;
  tune::RateField<Inherits>().set(model, 0.25);
  CHECK(model.lr == 0.25);
  tune::RateField<Inherits>(&Inherits::rate).set(model, 0.25);
  CHECK(model.rate == 0.25F);
  tune::RateField<Inherits>([](Inherits& of) -> double& { return of.nested.of_all; }).set(model, 0.25);
  CHECK(model.nested.of_all == 0.25);
  tune::RateField<Inherits>(nullptr).set(model, 0.75);
  CHECK(model.lr == 0.25);
  Learning other;
  tune::RateField<Learning>().set(other, 0.25);
  CHECK(other.learning_rate == 0.25);
}

TEST_CASE("options may be a variable, also where the model has the loader") {
  struct WithLoader : Bowl {
    auto train_dataloader() { return toy::batches(4); }
  } model;
  auto trainer = toy::train<WithLoader>(options(9), Automatic{});
  tune::RateSearch<WithLoader> const search{.min_lr = 1e-4, .max_lr = 0.4, .num_training = 8, .skip_begin = 0};
  auto changing = search;
  CHECK(tune::lr_find(trainer, model, search).lr.size() == 8);
  CHECK(tune::lr_find(trainer, model, changing).lr.size() == 8);
  CHECK(tune::lr_find(trainer, model, toy::batches(4), changing).lr.size() == 8);
}

TEST_CASE("why there are fewer points than were asked for is said") {
  Bowl model;
  auto const ended = [&](TrainerOptions given) {
    given.silence = {"fulgurite.tuner.no_suggestion"};
    auto trainer = toy::train<Bowl>(given, Automatic{});
    return tune::lr_find(trainer, model, toy::batches(4), short_search()).ended;
  };
  CHECK(ended({.max_epochs = 1}) == "the fit has no more steps: see max_epochs");
  CHECK(ended({.max_epochs = 9, .limit_train_batches = 0}) == "the fit has no batches: limit_train_batches is 0");
  CHECK(ended({.max_epochs = 9}).empty());
}

TEST_CASE("accumulation makes one point of each window, with the loss undivided") {
  Bowl one, window;
  auto const plan = short_search();
  auto single = toy::train<Bowl>(options(99), Automatic{});
  auto several = toy::train<Bowl>(options(99), Automatic{.accumulate_grad_batches = 2});
  auto const a = tune::lr_find(single, one, toy::batches(4), plan);
  auto const b = tune::lr_find(several, window, toy::batches(4), plan);
  CHECK(a.raw == b.raw);
  CHECK(a.suggested.lr == b.suggested.lr);
}

TEST_CASE("a search whose range, steps, rates or file make no sense is an Error before a step is made") {
  Bowl model;
  auto trainer = toy::train<Bowl>(options(9), Automatic{});
  auto const refused = [&](auto change) {
    auto search = short_search();
    change(search);
    return toy::refusal([&] { tune::lr_find(trainer, model, toy::batches(4), search); });
  };
  CHECK(refused([](auto& s) { s.max_lr = s.min_lr; }) == "fulgurite.tuner.range");
  CHECK(refused([](auto& s) { s.min_lr = 0; }) == "fulgurite.tuner.range");
  CHECK(refused([](auto& s) { s.num_training = 1; }) == "fulgurite.tuner.range");
  CHECK(refused([](auto& s) { s.early_stop_threshold = 0; }) == "fulgurite.tuner.range");
  CHECK(refused([](auto& s) { s.min_lr = 0, s.mode = tune::linear; }).empty());
  CHECK(toy::refusal([&] { LearningRateFinder<Bowl>{{.milestones = {-1}}}; }) == "fulgurite.tuner.milestone");
  model.rates.clear();
  model.lr = 0;
  CHECK(refused([](auto&) {}) == "fulgurite.tuner.zero_rate");
  CHECK(model.rates.empty());
  None none;
  auto nothing = toy::train<None>(options(9), Automatic{});
  CHECK(toy::refusal([&] { tune::lr_find(nothing, none, toy::batches(4), {}); }) == "fulgurite.tuner.no_rate");
  CHECK(toy::refusal([] { tune::RateCurve().save("/proc/no such folder/lr.csv"); }) == "fulgurite.file.write");
}

TEST_CASE("a search that diverges to what is not finite ends there, and the fit's own rule stays") {
  Bowl model;
  auto trainer = toy::train<Bowl>(options(999), Automatic{});
  auto const found = tune::lr_find(trainer, model, toy::batches(4),
                                   {.min_lr = 1, .max_lr = 1e90, .num_training = 40, .early_stop_threshold = {}});
  CHECK(found.ended == "the loss was not finite");
  CHECK(!std::isfinite(found.raw.back()));
  CHECK(found.lr.size() < 40);
  CHECK(trainer.options().non_finite == NonFinite::stop);
  CHECK(model.p.value() == 10.0);
}

TEST_CASE("what was found is saved as numbers, drawn as a picture, and shown on a terminal") {
  Bowl model;
  auto trainer = toy::train<Bowl>(options(9), Automatic{});
  auto const found = tune::lr_find(trainer, model, toy::batches(4), short_search());
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite_rates_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  found.save(folder / "lr.csv");
  found.plot(folder / "lr.svg");
  auto const numbers = text_of(folder / "lr.csv"), picture = text_of(folder / "lr.svg");
  std::filesystem::remove_all(folder);
  CHECK(numbers.starts_with("lr,loss,raw\n1e-04,"));
  CHECK(numbers == found.csv());
  std::istringstream rows(numbers.substr(numbers.find('\n') + 1));
  for (std::size_t i = 0; i != 8; ++i) {  // what is read back has all bits
    std::string lr, loss, raw;
    std::getline(rows, lr, ','), std::getline(rows, loss, ','), std::getline(rows, raw);
    CHECK(std::stod(lr) == found.lr[i]);
    CHECK(std::stod(loss) == found.loss[i]);
    CHECK(std::stod(raw) == found.raw[i]);
  }
  CHECK(rows.peek() == std::istringstream::traits_type::eof());
  CHECK(picture.find("<svg") != std::string::npos);
  CHECK(picture.find("suggestion: ") != std::string::npos);
  CHECK(found.text().find("suggested learning rate: ") != std::string::npos);
  // The picture begins at the first loss, and shows the losses above the averages, too.
  tune::FoundRate noisy;
  for (int i = 0; i != 40; ++i) noisy.add(1e-4 * (i + 1), 8.0 + (i % 2 == 0 ? 3 : -3) - 0.1 * i);
  noisy.suggested = noisy.suggestion();
  auto const plot = noisy.plot();
  REQUIRE(plot.curves.size() == 2);
  CHECK(plot.curves[0].y[0] == noisy.raw[0]);
  CHECK(noisy.loss[0] < 0.51 * noisy.raw[0]);  // Lightning's number stays in the file
  CHECK(plot.curves[1].y == noisy.raw);
  CHECK(plot.marks.at(0).y == plot.curves[0].y[noisy.suggested.point]);
  for (int i = 0; i != 8; ++i) noisy.add(0.1, 1000.0 * (i + 1));
  auto const diverged = noisy.plot();
  CHECK(std::isinf(diverged.curves[1].y.back()));  // would leave the averages no room
  CHECK(std::equal(noisy.raw.begin(), noisy.raw.begin() + 40, diverged.curves[1].y.begin()));
  CHECK(std::isfinite(diverged.curves[0].y.back()));
  // A loss far above the averages is shown where it comes before their lowest one.
  tune::FoundRate spiked;
  for (int i = 0; i != 220; ++i) spiked.add(1e-4 * (i + 1), i == 20 ? 100.0 : i < 20 ? 10.0 : 1.0);
  CHECK(spiked.plot().curves[1].y == spiked.raw);

  tune::FoundRate none;
  none.suggested = none.suggestion();
  CHECK(none.text().starts_with("no learning rate is suggested: 0 points"));
}
