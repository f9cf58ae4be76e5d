// What a fit leaves to the trainer and to the next one: where it was refused, has failed, or was cut short.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"
#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;

namespace {

TrainerOptions epochs(int n) { return {.max_epochs = n, .num_sanity_val_steps = 0}; }

/// Steps by hand, each two batches; fails in a batch if that is asked.
struct ByHand {
  toy::Tensor p = toy::Tensor::parameter(1.0);
  long fails_in = -1;
  std::vector<toy::Tensor> parameters() const { return {p}; }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.5}; }
  void training_step(double x, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.backward(p * toy::Tensor(x));
    if (ctx.batch_idx() == fails_in) throw std::runtime_error("a step failed");
    if (!ctx.closes_window(2)) return;
    ctx.step(optimizer);
    optimizer.zero_grad();
    p.clear_grad();
  }
};

}  // namespace

TEST_CASE("between fits: a snapshot in which no gradient was open leaves none of a fit that failed since") {
  auto const options = TrainerOptions{.max_epochs = 1, .num_sanity_val_steps = 0};
  auto const fitted = [&](bool fails) {
    ByHand model;
    auto trainer = make_trainer<ByHand>(options, toy::Device{}, Float32{}, Manual{});
    trainer.fit(model, toy::batches(4));
    auto const kept = snapshot(trainer);
    trainer.set_options(epochs(2));
    if (fails) {
      model.fails_in = 1;
      CHECK_THROWS_AS(trainer.fit(model, toy::batches(4)), std::runtime_error);
      model.fails_in = -1;
    }
    trainer.fit(model, toy::batches(4), kept);
    return model.p.value();
  };
  CHECK(fitted(true) == fitted(false));
}

TEST_CASE("between fits: a fit that is refused before it starts leaves the model and the optimizers of the last one") {
  toy::Slope first, second;
  auto trainer = toy::train<toy::Slope>(epochs(1), Automatic{});
  trainer.fit(first, toy::batches(2));
  auto const kept = snapshot(trainer);
  auto const trained = first.p.value();
  auto options = trainer.options();
  options.max_epochs = 2;
  auto refused = options;
  refused.reload_dataloaders_every_n_epochs = 1;
  trainer.set_options(refused);
  CHECK(toy::refusal([&] { trainer.fit(second, toy::batches(2)); }) == "fulgurite.options.reload");
  trainer.set_options(options);
  first.p.set(7);
  restore(trainer, kept);
  CHECK(first.p.value() == trained);
  CHECK(second.p.value() == 0);
}

TEST_CASE("between fits: the time after a fit is no time of training") {
  probe::fake_seconds = 0;
  toy::Slope model;
  auto options = TrainerOptions{.max_epochs = 1, .max_time = Seconds(60), .now = &probe::fake_now};
  auto trainer = toy::train<toy::Slope>(options, Automatic{});
  trainer.fit(model, toy::batches(2));
  probe::fake_seconds = 70;
  options.max_epochs = 2;
  trainer.set_options(options);
  trainer.fit(model, toy::batches(2), snapshot(trainer));
  CHECK(trainer.progress().global_step == 4);
  probe::fake_seconds = 0;
}

namespace {

struct FailsLate : toy::Slope {
  bool fails = false;
  void on_fit_end() {
    if (fails) throw std::runtime_error("a hook failed");
  }
};

}  // namespace

TEST_CASE("between fits: what ended a fit is empty after an exception in one of its last hooks, too") {
  FailsLate model;
  auto trainer = toy::train<FailsLate>(epochs(1), Automatic{});
  trainer.fit(model, toy::batches(2));
  CHECK(trainer.outcome().ended_by == "max_epochs = 1");
  model.fails = true;
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(2)), std::runtime_error);
  CHECK(trainer.outcome().ended_by.empty());
}

namespace {

struct Asks {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<vl>;
  toy::Tensor p = toy::Tensor::parameter(1.0);
  std::function<void()> look = [] {};
  std::vector<std::optional<double>> values = {};
  toy::Tensor training_step(double) { return p; }
  void validation_step(double x, auto& ctx) {
    ctx.log(vl, x + ctx.current_epoch());
    look();
  }
  void on_validation_epoch_end(auto& ctx) { values.push_back(ctx.value(vl)); }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};

}  // namespace

TEST_CASE("between fits: trainer.value in a hook of a validation does not change what the hooks after it read") {
  Asks model;
  auto trainer = toy::train<Asks>(epochs(2), Automatic{});
  model.look = [&] { static_cast<void>(trainer.value(Asks::vl)); };
  trainer.fit(model, toy::batches(1), toy::batches(1));
  CHECK(model.values == std::vector<std::optional<double>>{0, 1});
}

namespace {

struct NoWindow : ByHand {
  void training_step(double, auto& ctx) { static_cast<void>(ctx.closes_window(0)); }
};
struct Gathers : toy::Slope {
  std::vector<std::int64_t> all = {};
  std::vector<bool> truths = {};
  void on_fit_start(auto& ctx) {
    all = ctx.all_gather(std::numeric_limits<std::int64_t>::max() - ctx.rank());
    truths = ctx.all_gather(ctx.rank() == 1);
  }
};

}  // namespace

TEST_CASE(
    "between fits: a window of no batches is an Error, and a fraction that is too small says one that is enough") {
  NoWindow model;
  auto by_hand = make_trainer<NoWindow>(epochs(1), toy::Device{}, Float32{}, Manual{});
  CHECK(toy::refusal([&] { by_hand.fit(model, toy::batches(1)); }) == "fulgurite.options.accumulate");
  for (int const size : {3, 7, 9, 11, 13, 1000}) {
    toy::Slope slope;
    auto options = epochs(1);
    options.limit_train_batches = Fraction{1e-9};
    auto trainer = toy::train<toy::Slope>(options, Automatic{});
    std::string sentence;
    toy::refusal([&] { trainer.fit(slope, toy::batches(size)); }, &sentence);
    auto const at = sentence.find("use at least ");
    REQUIRE(at != std::string::npos);
    options.limit_train_batches = Fraction{std::stod(sentence.substr(at + 13))};
    trainer.set_options(options);
    CHECK(toy::refusal([&] { trainer.fit(slope, toy::batches(size)); }).empty());
  }
}

TEST_CASE("ranks: all_gather of one number keeps all of its bits") {
  auto const most = std::numeric_limits<std::int64_t>::max();
  for (int const world : {1, 2}) {
    auto const ranks = toy::on_ranks(world, [](toy::Rank rank) {
      Gathers model;
      auto trainer = make_trainer<Gathers>(epochs(1), rank);
      trainer.fit(model, toy::OwnPart<double>{toy::batches(1)});
      return std::pair(model.all, model.truths);
    });
    for (auto const& rank : ranks) {
      CHECK(rank.error == "");
      CHECK(rank.result->first.front() == most);
      CHECK(rank.result->first.back() == most - (world - 1));
      CHECK(rank.result->second.back() == (world == 2));
    }
  }
}

TEST_CASE("between fits: an epoch that a stop has cut is not reopened with fewer batches than it has had") {
  toy::Slope model, again;
  auto stops = toy::train<toy::Slope>(epochs(1), Automatic{}, toy::stop_at(0, 5));
  stops.fit(model, toy::batches(10));
  REQUIRE(stops.progress().global_step == 6);
  stops.save_checkpoint("cut");
  auto options = epochs(2);
  options.limit_train_batches = Batches{4};
  auto then = toy::train<toy::Slope>(options, Automatic{}, toy::stop_at(5, 5));
  CHECK(toy::refusal([&] { said([&] { then.fit(again, toy::batches(10), CkptPath{"cut"}); }); }) ==
        "fulgurite.resume.short_loader");
  CHECK(again.stepped.empty());
}

namespace {

/// Five batches. The first pass after a load continues where the saved one was, each later one begins again.
struct ContinuesOnce {
  static constexpr bool batches_stay_valid = true;
  long consumed = 0;
  bool loaded = false;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    ContinuesOnce* of;
    double operator*() const { return static_cast<double>(of->consumed); }
    Iterator& operator++() { return ++of->consumed, *this; }
    void operator++(int) { ++of->consumed; }
    bool operator==(std::default_sentinel_t) const { return of->consumed == 5; }
  };
  Iterator begin() {
    if (!std::exchange(loaded, false) || consumed == 5) consumed = 0;
    return {this};
  }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) {
    archive("consumed", consumed);
    loaded = loaded || archive.loading;
  }
};

}  // namespace

TEST_CASE("between fits: a file of a fit's end knows that the last epoch ended before its loader") {
  auto const fitted = [](int first, int whole, bool in_between) {
    toy::Slope model;
    ContinuesOnce loader;
    auto options = epochs(first);
    options.limit_train_batches = Batches{3};
    auto trainer = toy::train<toy::Slope>(options, Automatic{}, toy::Influence{[](std::string_view where, auto& ctx) {
                                            if (where == "on_train_epoch_end") ctx.request_checkpoint("after");
                                          }});
    trainer.fit(model, loader);
    if (first == whole) return model.stepped;
    trainer.save_checkpoint("end");
    if (in_between) {  // a run that ends once more, from the file before its end
      ContinuesOnce again;
      auto then = toy::train<toy::Slope>(options, Automatic{});
      said([&] { then.fit(model, again, CkptPath{"after"}); });
      then.save_checkpoint("end");
    }
    options.max_epochs = whole;
    ContinuesOnce then;
    auto other = toy::train<toy::Slope>(options, Automatic{});
    said([&] { other.fit(model, then, CkptPath{"end"}); });
    return model.stepped;
  };
  for (bool const in_between : {false, true}) CHECK(fitted(1, 2, in_between) == fitted(2, 2, in_between));
}

namespace {

/// Fails after the second batch, of which a file is written.
struct FailsAtEnd {
  using Stateless = ByChoice;
  bool fails = true;
  void on_train_batch_end(auto& ctx) {
    if (fails && ctx.batch_idx() == 1) throw std::runtime_error("a hook failed");
  }
  void on_exception(std::exception const&, auto& ctx) { ctx.request_checkpoint("failed"); }
};
struct TakesBatch {
  using Stateless = ByChoice;
  int* batches;
  void on_train_batch_end(double, auto&) { ++*batches; }
};

}  // namespace

TEST_CASE("between fits: a callback that takes the batch misses none where the run has failed at a batch left out") {
  std::vector<std::optional<double>> const loader{1, {}, 3};
  toy::Slope model, again;
  int batches = 0;
  auto trainer = toy::train<toy::Slope>(epochs(1), Automatic{}, FailsAtEnd{}, TakesBatch{&batches});
  auto then = toy::train<toy::Slope>(epochs(1), Automatic{}, FailsAtEnd{false}, TakesBatch{&batches});
  auto const warnings = said([&] {
    CHECK_THROWS_AS(trainer.fit(model, loader), std::runtime_error);
    then.fit(again, loader, CkptPath{"failed"});
  });
  CHECK(batches == 2);
  CHECK(warnings.find("[fulgurite.resume.untold]") == std::string::npos);
}

namespace {

/// Ten samples in batches of one, which the strategy shares out.
auto ten_samples() {
  std::vector<double> samples(10);
  for (std::size_t i = 0; i != samples.size(); ++i) samples[i] = double(i);
  return data::Loader{std::move(samples), {.batch_size = 1}, [](std::span<double const> one) { return one.front(); }};
}
struct Sums : toy::Slope {
  double validated = 0;
  void validation_step(double x) { validated += x; }
};

}  // namespace

TEST_CASE("ranks: after a call of a distributed trainer the program has its loaders back, with all samples") {
  auto const ranks = toy::on_ranks(2, [](toy::Rank rank) {
    Sums model;
    auto train = ten_samples(), val = ten_samples();
    auto trainer = make_trainer<Sums>(epochs(1), rank);
    trainer.fit(model, train, val);
    std::vector<double> seen{double(model.stepped.size()), std::exchange(model.validated, 0)};
    auto alone = toy::train<Sums>(epochs(1), Automatic{});
    alone.validate(model, val);
    seen.push_back(std::exchange(model.validated, 0));
    trainer.validate(model, val);
    seen.push_back(std::exchange(model.validated, 0));
    for (auto const& list : {&train, &val}) {
      double sum = 0;
      for (double const x : *list) sum += x;
      seen.push_back(sum);
    }
    trainer.set_options(epochs(2));
    trainer.fit(model, train, val);
    seen.push_back(double(model.stepped.size()));
    return seen;
  });
  for (auto const& rank : ranks) CHECK(rank.error == "");
  CHECK(*ranks[0].result == std::vector<double>{5, 20, 45, 20, 45, 45, 10});
  CHECK(*ranks[1].result == std::vector<double>{5, 25, 45, 25, 45, 45, 10});
}

TEST_CASE("between fits: a finished run that is started again leaves its loader at the start of an epoch") {
  toy::Slope model;
  auto options = epochs(1);
  options.max_steps = 6;
  auto const fitted = [&](std::optional<CkptPath> from = {}) {
    auto loader = ten_samples();
    auto trainer = toy::train<toy::Slope>(options, Automatic{}, toy::Influence{[](std::string_view where, auto& ctx) {
                                            if (where == "on_train_epoch_end") ctx.request_checkpoint("after");
                                            if (where == "on_train_batch_end" && ctx.global_step() == 6)
                                              ctx.request_checkpoint("batch");
                                          }});
    said([&] { trainer.fit(model, loader, from); });
    trainer.save_checkpoint("end");
    double sum = 0;
    for (double const x : loader) sum += x;
    return std::pair(sum, loader.epoch());
  };
  auto const first = fitted();
  CHECK(first == std::pair(45.0, 1L));
  for (auto const* file : {"end", "after", "batch", "end"}) CHECK(fitted(CkptPath{file}) == first);
  CHECK(model.stepped.size() == 6);
}

namespace {

/// After each epoch another trainer of several ranks evaluates another model on the same loader.
struct EvaluatesToo {
  using Stateless = ByChoice;
  std::function<void()> evaluate;
  void on_train_epoch_end(auto&) const { evaluate(); }
};

}  // namespace

TEST_CASE(
    "ranks: an evaluation by another trainer, or a search, leaves a fit its part of a loader, and others all of it") {
  auto const ranks = toy::on_ranks(2, [](toy::Rank rank) {
    Sums model, teacher;
    auto train = ten_samples(), val = ten_samples();
    auto other = make_trainer<Sums>(epochs(1), rank);
    auto trainer =
        make_trainer<Sums>(epochs(2), rank, EvaluatesToo{[&] { other.validate(teacher, std::tie(val, train)); }});
    trainer.fit(model, train, val);
    std::vector<double> seen{model.validated, teacher.validated, model.p.value()};
    tune::rehearse(other, model, train, {.steps = 2});
    double sum = 0;
    for (double const x : train) sum += x;
    seen.push_back(sum);
    return seen;
  });
  for (auto const& rank : ranks) CHECK(rank.error == "");
  CHECK(*ranks[0].result == std::vector<double>{40, 80, -55, 45});  // the sum of 1 to 10, twice, over two ranks
  CHECK(*ranks[1].result == std::vector<double>{50, 100, -55, 45});
}

namespace {

struct FailsToValidate : toy::Slope {
  bool fails = true;
  void validation_step(double) const {
    if (fails) throw Error("fulgurite.test.planned", "a validation failed");
  }
};

}  // namespace

TEST_CASE("between fits: after an evaluation that failed, a file still has the place where the last fit ended") {
  auto const trained = [](std::optional<bool> fails) {
    FailsToValidate model;
    auto options = epochs(2);
    options.max_steps = 6;
    auto trainer = toy::train<FailsToValidate>(options, Automatic{});
    trainer.fit(model, toy::batches(10), NoValidation{});
    if (fails) {
      model.fails = *fails;
      CHECK(error_of([&] { trainer.validate(model, toy::batches(1)); }).empty() != *fails);
    }
    trainer.save_checkpoint("end");
    options.max_steps = 14;
    auto then = toy::train<FailsToValidate>(options, Automatic{});
    said([&] { then.fit(model, toy::batches(10), NoValidation{}, CkptPath{"end"}); });
    return model.stepped;
  };
  auto const whole = trained({});
  CHECK(whole.size() == 14);
  CHECK(trained(false) == whole);
  CHECK(trained(true) == whole);
}

namespace {

struct CountsEpochs : FailsToValidate {
  int epochs = 0;
  void on_train_epoch_start() { ++epochs; }
};

}  // namespace

TEST_CASE(
    "between fits: a file from after an evaluation that failed, and a fit that trained nothing, begins its epoch") {
  CountsEpochs model;
  auto trainer = toy::train<CountsEpochs>(epochs(0), Automatic{});
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(!error_of([&] { trainer.validate(model, toy::batches(1)); }).empty());
  trainer.save_checkpoint("before");
  auto then = toy::train<CountsEpochs>(epochs(1), Automatic{});
  then.fit(model, toy::batches(4), NoValidation{}, CkptPath{"before"});
  CHECK(model.epochs == 1);
  CHECK(model.stepped.size() == 4);
}
