// The callback that finds a batch size when a fit starts, and again at milestones.
#include <fulgurite/tuner/batch_size_finder.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/data/loader.hpp>

#include "models.hpp"

using namespace fulgurite;
namespace data = fulgurite::data;

namespace {

using Rows = std::vector<double>;

/// Takes memory for each row; what it has seen in training proper, by epoch.
struct Net {
  toy::Tensor p = toy::Tensor::parameter(1.0);
  long batch_size = 2;
  std::vector<std::vector<std::size_t>> epochs = {};
  std::vector<toy::Tensor> parameters() const { return {p}; }
  void on_train_epoch_start(auto& ctx) {
    if (!ctx.rehearsing()) epochs.emplace_back();
  }
  toy::Tensor training_step(Rows const& rows, auto& ctx) {
    toy::take_memory(static_cast<long>(rows.size()));
    if (epochs.empty() && !ctx.rehearsing()) epochs.emplace_back();  // a fit that goes on inside of one
    if (!ctx.rehearsing()) epochs.back().push_back(rows.size());
    return p * p * toy::Tensor(0.01 * toy::draw() * (1 + rows[0]));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 0.1, .momentum = 0.9}; }
};
struct WithLoaders : Net {
  auto train_dataloader() {
    return data::Loader{toy::batches(40), {.batch_size = batch_size, .shuffle = true, .seed = 3}};
  }
};
struct Made {
  int batch_size = 2;
  auto train_dataloader() { return data::Loader{toy::batches(40), {.batch_size = batch_size, .shuffle = true}}; }
};
using Sizes = std::vector<std::size_t>;

auto loader(long batch_size = 2) {
  return data::Loader{toy::batches(40), {.batch_size = batch_size, .shuffle = true, .seed = 3}};
}
BatchSizeFinder<Net> finder(std::vector<int> milestones = {}) {
  return BatchSizeFinder<Net>{{.search = {.show = false}, .milestones = std::move(milestones)}};
}
/// More memory from this epoch on, as where a backbone is frozen.
struct MoreMemory {
  using Stateless = ByChoice;
  int epoch = -1;
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == epoch) toy::world.memory = 40;
  }
};

}  // namespace

TEST_CASE("a fit begins with the batch size that was found, and has the bits of one that was given it") {
  toy::world = {};
  toy::world.memory = 20;
  Net net, other;
  auto trainer = toy::train<Net>({.max_epochs = 2}, {}, finder());
  auto all = loader();
  trainer.fit(net, all);
  CHECK(all.batch_size() == 16);
  CHECK(net.epochs == std::vector<Sizes>{{16, 16, 8}, {16, 16, 8}});
  CHECK(trainer.callback<BatchSizeFinder<Net>>().results().size == 16);
  auto const random = toy::world.rng;

  toy::world = {};
  auto plain = toy::train<Net>({.max_epochs = 2}, {});
  auto given = loader(16);
  plain.fit(other, given);
  CHECK(net.p.value() == other.p.value());
  CHECK(random == toy::world.rng);
}

TEST_CASE("fields of the model and of the data module are found and written") {
  toy::world = {};
  toy::world.memory = 20;
  WithLoaders whole;
  auto of_whole = toy::train<WithLoaders>(
      {.max_epochs = 1}, {},
      BatchSizeFinder<WithLoaders>{{.search = {.field = &WithLoaders::batch_size, .show = false}}}, MoreMemory{});
  of_whole.fit(whole);
  CHECK(whole.batch_size == 16);
  CHECK(whole.epochs == std::vector<Sizes>{{16, 16, 8}});

  Net net;
  Made made;
  auto trainer = toy::train<Net>(
      {.max_epochs = 1}, {},
      BatchSizeFinder<Net, Made>{
          {.search = {.mode = tune::binsearch, .margin = 0, .field = &Made::batch_size, .show = false}}});
  trainer.fit(net, made);
  CHECK(made.batch_size == 20);
  CHECK(net.epochs == std::vector<Sizes>{{20, 20}});
}

TEST_CASE("at a milestone it searches again, and the epoch that follows has the new size") {
  for (bool const settable : {true, false}) {
    toy::world = {};
    toy::world.memory = 20;
    WithLoaders net;
    BatchSizeFinderOptions<WithLoaders> options{.search = {.show = false}, .milestones = {2}};
    if (!settable) options.search.field = &WithLoaders::batch_size;
    auto trainer = toy::train<WithLoaders>({.max_epochs = 3}, {}, BatchSizeFinder<WithLoaders>{options}, MoreMemory{2});
    auto all = loader();
    if (settable) trainer.fit(net, all);
    else trainer.fit(net);
    CHECK(net.epochs == std::vector<Sizes>{{16, 16, 8}, {16, 16, 8}, {40}});
    CHECK(trainer.progress().global_step == 7);
  }
}

TEST_CASE("a search at a milestone changes nothing but the batch size") {
  auto const trained = [](std::vector<int> milestones) {
    toy::world = {};
    toy::world.memory = 20;
    Net net;
    auto trainer = toy::train<Net>({.max_epochs = 4}, {.accumulate_grad_batches = 2}, finder(std::move(milestones)));
    auto all = loader();
    trainer.fit(net, all);
    return std::vector{net.p.value(), static_cast<double>(toy::world.rng),
                       static_cast<double>(trainer.progress().global_step)};
  };
  CHECK(trained({1, 3}) == trained({}));
}

TEST_CASE("a fit that goes on from a file has the size that was found, and searches no more") {
  auto const fit = [](Net& net, long saved_at, std::optional<CkptPath> from) {
    auto trainer = toy::train<Net>({.max_epochs = 4}, {}, finder(), toy::Influence{[=](std::string_view, auto& ctx) {
                                     if (ctx.global_step() == saved_at) ctx.request_checkpoint("a file");
                                   }});
    auto all = loader();
    trainer.fit(net, all, from);
    CHECK(all.batch_size() == 16);
    return trainer.template callback<BatchSizeFinder<Net>>().results().trials.size();
  };
  for (long const steps : {3L, 4L}) {  // after an epoch, and inside of one
    toy::world = {};
    toy::world.memory = 20;
    Net whole, rest;
    CHECK(fit(whole, steps, std::nullopt) == 5);
    auto const random = toy::world.rng;
    CHECK(fit(rest, 0, CkptPath{"a file"}) == 0);
    CHECK(rest.epochs.size() == 3);
    CHECK(rest.p.value() == whole.p.value());
    CHECK(toy::world.rng == random);
  }
}

TEST_CASE("what a search cannot do in a fit is an Error before training") {
  toy::world = {};
  std::vector<Rows> const batches(4, Rows{1, 2});
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 1}, {}, finder());
  CHECK(toy::refusal([&] { trainer.fit(net, batches); }) == "fulgurite.tuner.no_size");

  auto with_field = toy::train<Net>({.max_epochs = 1}, {},
                                    BatchSizeFinder<Net>{{.search = {.field = &Net::batch_size, .show = false}}});
  auto all = loader();
  CHECK(toy::refusal([&] { with_field.fit(net, all); }) == "fulgurite.tuner.needs_factory");

  struct Other : Made {
  } other;
  auto of_made = toy::train<Net>({.max_epochs = 1}, {},
                                 BatchSizeFinder<Net, Made>{{.search = {.field = &Made::batch_size, .show = false}}});
  CHECK(toy::refusal([&] { of_made.fit(net, other); }) == "fulgurite.tuner.no_data_module");
  CHECK(net.epochs.empty());
  CHECK(toy::refusal([] { finder({-1}); }) == "fulgurite.tuner.milestone");
  CHECK(toy::refusal([] { BatchSizeFinder<Net>{{.search = {.init_val = 0}}}; }) == "fulgurite.tuner.batch_size_option");
}

TEST_CASE("in a fast_dev_run the callback is idle") {
  toy::world = {};
  Net net;
  auto trainer = toy::train<Net>({.fast_dev_run = 2}, {}, finder());
  auto all = loader();
  trainer.fit(net, all);
  CHECK(net.epochs == std::vector<Sizes>{{2, 2}});
}

namespace {
/// Searches before the second epoch alone.
struct Later : BatchSizeFinder<Net> {
  Later() : BatchSizeFinder<Net>({.search = {.show = false}}) {}
  void on_fit_start(auto&) {}
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == 1) scale_batch_size(ctx);
  }
};
}  // namespace

TEST_CASE("what derives from it searches when it likes") {
  toy::world = {};
  toy::world.memory = 20;
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 2}, {}, Later{});
  auto all = loader(10);
  trainer.fit(net, all);
  CHECK(net.epochs == std::vector<Sizes>{{10, 10, 10, 10}, {16, 16, 8}});
}

namespace {

/// A clock that says ten milliseconds for each batch that was evaluated.
long batches_passed = 0;
TrainerOptions::Clock::time_point counting() {
  return TrainerOptions::Clock::time_point(std::chrono::milliseconds(10 * batches_passed));
}
/// What was evaluated on trial, and what in earnest.
struct Evaluated : Net {
  std::vector<std::size_t> tried = {}, evaluated = {};
  std::vector<double> firsts = {};
  int setups = 0, failures = 0;
  std::function<void()> act = nullptr;
  void setup(auto&) { ++setups; }
  void on_exception(std::exception const&, auto&) { ++failures; }
  void validation_step(Rows const& rows, auto& ctx) { look(rows, ctx); }
  void test_step(Rows const& rows, auto& ctx) { look(rows, ctx); }
  double predict_step(Rows const& rows, auto& ctx) { return look(rows, ctx), toy::draw(); }
  void look(Rows const& rows, auto& ctx) {
    (ctx.rehearsing() ? tried : evaluated).push_back(rows.size());
    ++batches_passed;
    if (!ctx.rehearsing()) firsts.push_back(rows[0] + toy::draw());
    toy::take_memory(static_cast<long>(rows.size()));
    if (ctx.rehearsing() && act) act();
  }
};
struct EvaluatedData : Made {
  int made = 0;
  auto val_dataloader() {
    ++made;
    return data::Loader{toy::batches(40), {.batch_size = batch_size}};
  }
};
BatchSizeFinder<Evaluated> evaluation_finder(long batches = 1) {
  return BatchSizeFinder<Evaluated>{{.search = {.steps_per_trial = batches, .show = false}}};
}
/// What evaluates with a search first: one type for all, since each takes long to compile.
auto evaluator(BatchSizeFinder<Evaluated> finder, TrainerOptions options = {.max_epochs = 1}, Automatic how = {}) {
  return toy::train<Evaluated>(std::move(options), how, std::move(finder), Signals{{.dirpath = "evaluated"}});
}
enum class Evaluation { validate, test, predict };
constexpr auto evaluations = {Evaluation::validate, Evaluation::test, Evaluation::predict};
void evaluate(Evaluation how, auto& trainer, auto& net, auto& all) {
  switch (how) {
  case Evaluation::validate: trainer.validate(net, all); return;
  case Evaluation::test: trainer.test(net, all); return;
  case Evaluation::predict: trainer.predict(net, all); return;
  }
}

}  // namespace

TEST_CASE("validate, test and predict begin with a search over their own batches") {
  for (auto const how : evaluations) {
    CAPTURE(how);
    toy::world = {};
    toy::world.memory = 20;
    Evaluated net, other;
    auto trainer = evaluator(evaluation_finder());
    auto all = loader();
    evaluate(how, trainer, net, all);
    CHECK(net.tried == Sizes{2, 4, 8, 16, 32});
    CHECK(net.evaluated == Sizes{16, 16, 8});
    CHECK(all.batch_size() == 16);
    CHECK(trainer.template callback<BatchSizeFinder>().results().size == 16);
    CHECK(net.setups == 1);
    CHECK(net.failures == 0);  // of a size that does not fit the model hears nothing
    CHECK(trainer.warnings().empty());
    auto const random = toy::world.rng;

    toy::world = {};  // the evaluation itself has the bits of one that never searched
    auto plain = toy::train<Evaluated>({.max_epochs = 1}, {});
    auto given = loader(16);
    evaluate(how, plain, other, given);
    CHECK(net.firsts == other.firsts);
    CHECK(toy::world.rng == random);
  }
}

TEST_CASE("where an evaluation's own limit is 0 it tries nothing out") {
  for (auto const how : evaluations) {
    CAPTURE(how);
    toy::world = {};
    Evaluated net;
    auto trainer =
        evaluator(evaluation_finder(),
                  {.max_epochs = 1, .limit_val_batches = 0, .limit_test_batches = 0, .limit_predict_batches = 0});
    auto all = loader();
    evaluate(how, trainer, net, all);
    CHECK(net.tried.empty());
    CHECK(all.batch_size() == 2);
    CHECK(trainer.warnings().empty());
    auto options = trainer.given_options();
    options.limit_val_batches = options.limit_test_batches = options.limit_predict_batches = {};
    trainer.set_options(options);
    evaluate(how, trainer, net, all);  // the search of an evaluation that has batches
    CHECK(all.batch_size() == 40);
  }
}

TEST_CASE("an evaluation's loaders are made of the field that was found") {
  toy::world = {};
  toy::world.memory = 20;
  Evaluated net;
  EvaluatedData made;
  auto trainer = toy::train<Evaluated>(
      {.max_epochs = 1}, {},
      BatchSizeFinder<Evaluated, EvaluatedData>{
          {.search = {.steps_per_trial = 1, .field = &EvaluatedData::batch_size, .show = false}}});
  trainer.validate(net, made);
  CHECK(made.batch_size == 16);
  CHECK(made.made == 5 + 1);
  CHECK(net.evaluated == Sizes{16, 16, 8});
}

namespace {

/// Trains on batches of the field, and evaluates on batches that have a size of their own.
struct OwnSize : Evaluated {
  auto train_dataloader() { return data::Loader{toy::batches(40), {.batch_size = batch_size}}; }
  auto val_dataloader() { return data::Loader{toy::batches(40), {.batch_size = 10}}; }
};
std::string said(auto const& trainer) {
  std::string all;
  for (auto const& warning : trainer.warnings()) all += warning + "\n";
  return all;
}
std::string skips(std::string const& why) {
  return "[fulgurite.tuner.not_searched] no batch size was searched for in an evaluation that has no place for one: "
         "[fulgurite.tuner." +
         why + "] ";
}

}  // namespace

TEST_CASE("an evaluation that has no place for a size goes without the search, and a warning says so") {
  for (auto const how : evaluations) {
    CAPTURE(how);
    toy::world = {};
    std::vector<Rows> const batches(4, Rows{1, 2});
    Evaluated net;
    auto trainer = evaluator(evaluation_finder());
    evaluate(how, trainer, net, batches);
    evaluate(how, trainer, net, batches);
    CHECK(net.tried.empty());
    CHECK(net.evaluated == Sizes(8, 2));
    CHECK(trainer.warnings().size() == 1);
    CHECK(said(trainer).starts_with(skips("no_size")));
  }

  OwnSize own;
  auto trainer = toy::train<OwnSize>(
      {.max_epochs = 1, .num_sanity_val_steps = 0}, {},
      BatchSizeFinder<OwnSize>{{.search = {.steps_per_trial = 1, .field = &OwnSize::batch_size, .show = false}}});
  trainer.fit(own);
  CHECK(own.batch_size == 40);
  own.tried.clear();
  own.evaluated.clear();
  auto other = loader();
  trainer.test(own, other);
  CHECK(said(trainer).starts_with(skips("needs_factory")));
  CHECK(own.tried.empty());
  CHECK(own.evaluated == Sizes(20, 2));
  own.evaluated.clear();
  trainer.validate(own, own);
  CHECK(said(trainer).find(skips("unused_size")) != std::string::npos);
  CHECK(own.evaluated == Sizes(4, 10));
  CHECK(own.batch_size == 40);
  CHECK(own.failures == 0);
}

TEST_CASE("a search in an evaluation leaves the fit and its files the size that the fit has found") {
  toy::world = {};
  toy::world.memory = 20;
  Evaluated net, rest;
  auto trainer = evaluator(evaluation_finder(), {.max_epochs = 1, .now = &counting}, {.accumulate_grad_batches = 3});
  auto all = loader(), tested = loader();
  std::optional<CkptPath> from = std::nullopt;
  trainer.fit(net, all, NoValidation{}, from);
  toy::world.memory = 9;
  trainer.test(net, tested);
  CHECK(tested.batch_size() == 8);
  auto const& trials = trainer.callback<BatchSizeFinder>().results().trials;
  REQUIRE(trials.size() == 4);
  CHECK(trials[0].samples_per_second == 200);  // windows of several batches are those of training
  trainer.save_checkpoint("after");
  from = CkptPath{"after"};
  auto later = evaluator(evaluation_finder(), {.max_epochs = 2}, {.accumulate_grad_batches = 3});
  auto again = loader();
  toy::world.memory = 20;
  later.fit(rest, again, NoValidation{}, from);
  CHECK(again.batch_size() == 16);
  CHECK(later.callback<BatchSizeFinder>().results().trials.empty());
}

TEST_CASE("a search in an evaluation that fails, or that SIGINT ends, puts everything back") {
  for (auto const how : evaluations) {
    CAPTURE(how);
    for (bool const by_signal : {false, true}) {
      toy::world = {};
      Evaluated net;
      auto trainer = evaluator(evaluation_finder(3));
      auto all = loader(3);
      int calls = 0;
      net.act = [&] {
        toy::draw();
        net.p.set(7);
        if (++calls != 2) return;
        if (by_signal) std::raise(SIGINT);
        else throw std::runtime_error("a step");
      };
      auto const random = toy::world.rng;
      if (by_signal) CHECK_THROWS_AS(evaluate(how, trainer, net, all), Interrupted);
      else CHECK_THROWS_AS(evaluate(how, trainer, net, all), std::runtime_error);
      CHECK(net.tried == Sizes{2, 2});
      CHECK(net.evaluated.empty());
      CHECK(net.failures == 1);
      CHECK(net.p.value() == 1.0);
      CHECK(toy::world.rng == random);
      CHECK(all.batch_size() == 3);
      net.act = nullptr;
      toy::world.memory = 20;
      evaluate(how, trainer, net, all);  // and the trainer is none the worse
      evaluate(how, trainer, net, all);
      CHECK(net.evaluated == Sizes{16, 16, 8, 16, 16, 8});
      CHECK(trainer.warnings().empty());
    }
  }
}

namespace {
/// Searches in tests alone.
struct InTests : BatchSizeFinder<Evaluated> {
  InTests() : BatchSizeFinder<Evaluated>({.search = {.steps_per_trial = 1, .show = false}}) {}
  void setup(auto& ctx) {
    if (ctx.stage() == Stage::test) scale_batch_size(ctx);
  }
  void on_fit_start(auto&) {}
};
struct InFits : BatchSizeFinder<Evaluated> {
  using BatchSizeFinder::BatchSizeFinder;
  static constexpr bool needs_one_eval_loader = false;
  void setup(auto& ctx) {
    if (ctx.stage() == Stage::fit) BatchSizeFinder::setup(ctx);
  }
};
}  // namespace

TEST_CASE("what derives from it searches in the evaluations that it likes, and in none of a fast_dev_run") {
  toy::world = {};
  toy::world.memory = 20;
  Evaluated net;
  auto trainer = toy::train<Evaluated>({.max_epochs = 1}, {}, InTests{});
  auto all = loader();
  trainer.fit(net, all, NoValidation{});
  trainer.validate(net, all);
  CHECK(net.tried.empty());
  CHECK(all.batch_size() == 2);
  trainer.test(net, all);
  CHECK(all.batch_size() == 16);

  auto in_fits = toy::train<Evaluated>({.max_epochs = 1}, {}, InFits{{.search = {.show = false}}});
  auto trained = loader(), validated = loader();
  in_fits.fit(net, trained, NoValidation{});
  in_fits.validate(net, validated);
  CHECK(trained.batch_size() == 16);
  CHECK(validated.batch_size() == 2);
  net.evaluated.clear();
  in_fits.validate(net, std::tuple(loader(20), loader(20)));
  CHECK(net.evaluated == Sizes{20, 20, 20, 20});

  auto dev = evaluator(evaluation_finder(), {.fast_dev_run = 1});
  auto few = loader();
  dev.test(net, few);
  CHECK(few.batch_size() == 2);
}
