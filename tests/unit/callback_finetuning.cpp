// BackboneFinetuning and its base: what is frozen when, which groups an optimizer has, with which rates, also after a
// reload.
#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/core/archive.hpp>

#include "callback_one_by_one.hpp"
#include "callback_run.hpp"
#include "loop_resume_named.hpp"
#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;
using thaws::OneByOne;

namespace {
/// The loss is minus the sum of all: each step of a parameter with rate r adds r.
struct TwoParts {
  toy::Tensor head = toy::Tensor::parameter(0.0), norm = toy::Tensor::parameter(0.0),
              body = toy::Tensor::parameter(0.0);
  toy::Part backbone{{body}, {norm}};
  bool all_at_once = false;

  std::vector<toy::Tensor> parameters() const { return {head, norm, body}; }
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() {
    return {{"head", head}, {"norm", norm}, {"body", body}};
  }
  toy::Tensor training_step(double) { return -(head + norm + body); }
  toy::Sgd configure_optimizers() {
    if (all_at_once) return toy::Sgd{{head, norm, body}, 0.1};
    return toy::Sgd{{head}, 0.1};
  }
};

using Rates = std::vector<std::vector<double>>;
/// What each epoch trains with, seen when it has begun.
struct Watch {
  using Stateless = ByChoice;
  Rates rates = {};
  std::vector<bool> body = {}, norm = {};
  void on_train_batch_start(auto& ctx) {
    if (ctx.batch_idx() != 0) return;
    auto& now = rates.emplace_back();
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) now.push_back(optimizer.lr(g));
    });
    body.push_back(ctx.model().body.requires_grad());
    norm.push_back(ctx.model().norm.requires_grad());
  }
};

void check_rates(Rates const& seen, Rates const& expected) {
  REQUIRE(seen.size() == expected.size());
  for (std::size_t e = 0; e != seen.size(); ++e) {
    CAPTURE(e);
    REQUIRE(seen[e].size() == expected[e].size());
    for (std::size_t g = 0; g != seen[e].size(); ++g) CHECK(seen[e][g] == Catch::Approx(expected[e][g]));
  }
}

auto trainer_of(int epochs, auto... callbacks) {
  return toy::train<TwoParts>({.max_epochs = epochs, .num_sanity_val_steps = 0}, Automatic{}, std::move(callbacks)...,
                              Watch{});
}
Watch fit(TwoParts& model, int epochs, BackboneFinetuningOptions options) {
  auto trainer = toy::train<TwoParts>({.max_epochs = epochs, .num_sanity_val_steps = 0}, Automatic{},
                                      BackboneFinetuning{options}, Watch{});
  trainer.fit(model, toy::batches(2));
  return trainer.template callback<Watch>();
}

/// What a callback sees of a run in its fourth epoch.
template <class M>
struct Resumed {
  using Backend = toy::Backend;
  M parts{};
  toy::Sgd sgd{};
  Stage stage() const { return Stage::fit; }
  M& model() { return parts; }
  int current_epoch() const { return 3; }
  int rank() const { return 0; }
  void each_optimizer(auto&& f) { f(std::size_t{0}, sgd); }
};
struct OtherParts {
  toy::Tensor p = toy::Tensor::parameter(0);
  toy::Part backbone{{p}};
};
}  // namespace

TEST_CASE("the backbone does not move before its epoch", "[finetuning]") {
  TwoParts model;
  auto const seen = fit(model, 3, {.unfreeze_backbone_at_epoch = 3});
  CHECK(seen.body == std::vector<bool>(3, false));
  CHECK(model.body.value() == 0.0);
  CHECK_FALSE(model.body.has_grad());
  CHECK(model.head.value() == Catch::Approx(0.6));
}

TEST_CASE("the backbone's rate stops at the head's, unless should_align is off", "[finetuning]") {
  TwoParts aligned, free;
  BackboneFinetuningOptions options{
      .unfreeze_backbone_at_epoch = 0, .lambda_func = [](int) { return 5.0; }, .backbone_initial_lr = 0.04};
  check_rates(fit(aligned, 3, options).rates, {{.1, .04}, {.1, .1}, {.1, .1}});
  options.should_align = false;
  check_rates(fit(free, 3, options).rates, {{.1, .04}, {.1, .2}, {.1, 1.}});
}

TEST_CASE("lambda_func receives the epoch plus one", "[finetuning]") {
  TwoParts model;
  check_rates(
      fit(model, 3, {.unfreeze_backbone_at_epoch = 0, .lambda_func = [](int epoch) { return 1.0 / epoch; }}).rates,
      {{.1, .01}, {.1, .005}, {.1, .005 / 3}});
}

TEST_CASE("train_bn off: the backbone's batch norm never trains", "[finetuning]") {
  TwoParts model;
  auto const seen = fit(model, 3, {.unfreeze_backbone_at_epoch = 1, .train_bn = false});
  CHECK(seen.norm == std::vector<bool>(3, false));
  CHECK(model.norm.value() == 0.0);
  CHECK(model.body.value() > 0);
}

TEST_CASE("an optimizer that has the backbone already is refused before training", "[finetuning]") {
  TwoParts model;
  model.all_at_once = true;
  CHECK(toy::refusal([&] { fit(model, 2, {}); }) == "fulgurite.callback.backbone_in_optimizer");
  CHECK(model.head.value() == 0.0);
}

TEST_CASE("options that cannot be are refused when they are given", "[finetuning]") {
  auto const refused = [](BackboneFinetuningOptions options) {
    return toy::refusal([&] { BackboneFinetuning{options}; });
  };
  std::string const wrong = "fulgurite.callback.backbone_finetuning_options";
  CHECK(refused({.unfreeze_backbone_at_epoch = -1}) == wrong);
  CHECK(refused({.backbone_initial_ratio_lr = 0}) == wrong);
  CHECK(refused({.backbone_initial_lr = -0.1}) == wrong);
  CHECK(refused({.lambda_func = nullptr}) == wrong);
  CHECK(refused({}).empty());
}

TEST_CASE("a further fit begins frozen again; with epochs beyond the first one's it thaws at once", "[finetuning]") {
  BackboneFinetuning thaw{{.unfreeze_backbone_at_epoch = 1}};
  Resumed<TwoParts> run;
  for (int fits = 0; fits != 2; ++fits) {
    thaw.setup(run);
    CHECK_FALSE(run.parts.body.requires_grad());
    CHECK(thaw.added_groups().empty());
    run.sgd = run.parts.configure_optimizers();
    thaw.on_fit_start(run);
    CHECK(run.sgd.groups() == 1);
    thaw.on_train_epoch_start(run);
    CHECK(run.sgd.groups() == 2);
    CHECK(run.sgd.lr(1) == Catch::Approx(.01));
  }
}

TEST_CASE("a reloaded state gives the optimizer its group back, and the rates go on", "[finetuning]") {
  BackboneFinetuningOptions const options{.unfreeze_backbone_at_epoch = 1};
  TwoParts first;
  auto half = trainer_of(3, BackboneFinetuning{options});
  half.fit(first, toy::batches(2));
  auto const saved = state_text(half.callback<BackboneFinetuning>());

  Resumed<TwoParts> run;
  BackboneFinetuning resumed{options};
  resumed.setup(run);
  run.sgd = run.parts.configure_optimizers();
  load_state_text(resumed, saved);
  CHECK_FALSE(run.parts.body.requires_grad());
  resumed.on_fit_start(run);
  REQUIRE(run.sgd.groups() == 2);
  CHECK(run.sgd.lr(1) == Catch::Approx(.02));
  CHECK_FALSE(run.parts.body.requires_grad());  // the run's file says what trains, and is loaded later
  CHECK(toy::Backend::same(run.sgd.params[1], run.parts.body));
  resumed.on_fit_start(run);
  CHECK(run.sgd.groups() == 2);
  resumed.on_train_epoch_start(run);
  CHECK(run.sgd.lr(1) == Catch::Approx(.04));
  resumed.on_train_epoch_start(run);  // the same epoch, gone on with
  CHECK(run.sgd.lr(1) == Catch::Approx(.04));
}

TEST_CASE("a saved group whose parameter the model has not is an Error", "[finetuning]") {
  Resumed<OtherParts> run;
  TwoParts first;
  auto trainer = trainer_of(2, BackboneFinetuning{{.unfreeze_backbone_at_epoch = 0}});
  trainer.fit(first, toy::batches(1));
  BackboneFinetuning resumed;
  load_state_text(resumed, state_text(trainer.callback<BackboneFinetuning>()));
  CHECK(toy::refusal([&] { resumed.on_fit_start(run); }) == "fulgurite.callback.finetuning_parameter");
}

namespace {
struct ThreeParts {
  toy::Tensor head = toy::Tensor::parameter(0.0), a = toy::Tensor::parameter(0.0), b = toy::Tensor::parameter(0.0);
  std::vector<toy::Part> parts{{{a}}, {{b}}};
  toy::Tensor training_step(double) { return -(head + a + b); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{head}, 1.0}; }
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() { return {{"head", head}, {"a", a}, {"b", b}}; }
};
}  // namespace

TEST_CASE("a callback of one's own thaws part after part, each at a fraction of the first rate", "[finetuning]") {
  ThreeParts model;
  auto trainer = toy::train<ThreeParts>({.max_epochs = 4, .num_sanity_val_steps = 0}, Automatic{}, OneByOne{});
  trainer.fit(model, toy::batches(1));
  CHECK(model.head.value() == 4.0);
  CHECK(model.a.value() == 1.5);
  CHECK(model.b.value() == 1.0);
  auto const& added = trainer.callback<OneByOne>().added_groups();
  REQUIRE(added.size() == 2);
  CHECK((added[0].parameters == std::vector<std::string>{"a"} && added[0].epoch == 1 && added[0].group == 1));
  CHECK((added[1].parameters == std::vector<std::string>{"b"} && added[1].epoch == 2 && added[1].group == 2));
}

TEST_CASE("a schedule goes on with the groups it was made for; the group added later keeps its own rate",
          "[finetuning]") {
  struct Scheduled : TwoParts {
    auto configure_optimizers() {
      return scheduled(toy::Sgd{{head}, 0.1}, [](long moves) { return moves == 0 ? 1.0 : 0.5; });
    }
  };
  Scheduled model;
  auto trainer =
      toy::train<Scheduled>({.max_epochs = 3, .num_sanity_val_steps = 0}, Automatic{},
                            BackboneFinetuning{{.unfreeze_backbone_at_epoch = 0, .should_align = false}}, Watch{});
  trainer.fit(model, toy::batches(1));
  check_rates(trainer.callback<Watch>().rates, {{.1, .01}, {.05, .02}, {.05, .04}});
}

TEST_CASE("beside SWA, whichever is listed first, the rates are SWA's alone from its epoch on", "[finetuning]") {
  BackboneFinetuning const thaw{{.unfreeze_backbone_at_epoch = 0, .should_align = false}};
  StochasticWeightAveraging const swa{
      {.swa_lrs = 0.5, .swa_epoch_start = 3, .annealing_epochs = 2, .annealing_strategy = Annealing::linear}};
  auto const rates = [](auto... callbacks) {
    TwoParts model;
    auto trainer = trainer_of(5, callbacks...);
    trainer.fit(model, toy::batches(1));
    return trainer.template callback<Watch>().rates;
  };
  Rates const expected{{.1, .01}, {.1, .02}, {.1, .04}, {.3, .27}, {.5, .5}};
  check_rates(rates(thaw, swa), expected);
  check_rates(rates(swa, thaw), expected);

  TwoParts model;
  auto trainer = trainer_of(5, LearningRateMonitor{{.logging_interval = Interval::epoch}}, thaw, swa, toy::Rows{});
  trainer.fit(model, toy::batches(1));
  check_rates({trainer.callback<LearningRateMonitor>().lrs().at("lr-SGD/pg2")}, {{.01, .02, .04, .27, .5}});
}

TEST_CASE("a state loaded inside a fit, as by one that goes back, leaves the groups; the next fit begins frozen",
          "[finetuning]") {
  BackboneFinetuning thaw{{.unfreeze_backbone_at_epoch = 0}};
  Resumed<TwoParts> run;
  for (int fits = 0; fits != 2; ++fits) {
    thaw.setup(run);
    CHECK(thaw.added_groups().empty());
    run.sgd = run.parts.configure_optimizers();
    thaw.on_fit_start(run);
    CHECK(run.sgd.groups() == 1);
    thaw.on_train_start();
    thaw.on_train_epoch_start(run);
    CHECK(run.sgd.groups() == 2);
    load_state_text(thaw, state_text(thaw));
    CHECK(thaw.added_groups().size() == 1);
    thaw.teardown(run);
  }
}

namespace {
struct Backbone {
  toy::Tensor head = toy::Tensor::parameter(0.5), body = toy::Tensor::parameter(0.25),
              norm = toy::Tensor::parameter(0.75);
  toy::Part backbone{{body}, {norm}};
  std::vector<toy::Tensor> parameters() const { return {head, body, norm}; }
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() const {
    return {{"head", head}, {"body", body}, {"norm", norm}};
  }
  toy::Tensor training_step(double) { return head * body * norm; }
  toy::Sgd configure_optimizers() { return {.params = {head}, .rate = 0.125}; }
};
struct Saves {
  using Stateless = ByChoice;
  Folder const* folder;
  std::string name;
  void on_train_batch_end(auto& ctx) { ctx.request_checkpoint(*folder / (name + std::to_string(ctx.global_step()))); }
};
}  // namespace

TEST_CASE("switches: BackboneFinetuning resumes at every place, of its own files and of those of a resumed run") {
  Folder const folder;
  int epochs = 0;
  auto const run = [&](Backbone& net, std::string const& name, std::optional<CkptPath> const& from) {
    auto trainer = make_trainer<Backbone>(quick(epochs), SavingDevice{}, Float32{}, Automatic{},
                                          BackboneFinetuning{{.unfreeze_backbone_at_epoch = 1, .train_bn = false}},
                                          Saves{&folder, name});
    trainer.fit(net, toy::batches(2), from);
  };
  epochs = 3;
  Backbone whole;
  run(whole, "whole", {});
  CHECK(resumed::named(folder / "whole2").empty());
  CHECK(resumed::named(folder / "whole3") == "off: on: body");
  for (int step = 1; step != 6; ++step) {
    CAPTURE(step);
    Backbone net, last;
    run(net, "again", CkptPath{folder / ("whole" + std::to_string(step))});
    CHECK(net.body.value() == whole.body.value());
    CHECK(net.head.value() == whole.head.value());
    CHECK(content(folder / "again6") == content(folder / "whole6"));
    if (step == 5) continue;
    run(last, "last", CkptPath{folder / "again5"});
    CHECK(last.body.value() == whole.body.value());
    CHECK_FALSE(last.norm.requires_grad());
  }
}

TEST_CASE("a fit that does not resume begins frozen, whatever was loaded before it", "[finetuning]") {
  Backbone net;
  BackboneFinetuningOptions const options{.unfreeze_backbone_at_epoch = 1};
  auto const trainer_with = [&](int epochs, auto... more) {
    return make_trainer<Backbone>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, BackboneFinetuning{options},
                                  more...);
  };
  auto const trains_all = [&](auto& trainer) {
    auto more = trainer.given_options();
    more.max_epochs = 5;
    trainer.set_options(more);
    double const before = net.body.value();
    trainer.fit(net, toy::batches(2));
    return net.body.requires_grad() && net.body.value() != before;
  };
  auto trainer = trainer_with(3);
  trainer.fit(net, toy::batches(2));
  SECTION("a snapshot was restored") {
    auto const kept = snapshot(trainer);
    restore(trainer, kept);
    CHECK(trains_all(trainer));
  }
  Folder const folder;
  trainer.save_checkpoint(folder / "end");
  SECTION("a finished run was resumed") {
    auto again = trainer_with(3);
    again.fit(net, toy::batches(2), CkptPath{folder / "end"});
    CHECK(trains_all(again));
  }
  SECTION("a resumed fit has failed before training") {
    struct Fails {
      using Stateless = ByChoice;
      bool once = true;
      void on_train_start() {
        if (std::exchange(once, false)) throw std::runtime_error("the disk was away");
      }
    };
    auto again = trainer_with(4, Fails{});
    CHECK_THROWS(again.fit(net, toy::batches(2), CkptPath{folder / "end"}));
    CHECK(trains_all(again));
  }
}
