// How training ends: stops and their minima, limits of epochs, steps and time; what a second fit does.
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"

using namespace fulgurite;
using toy::Influence;
using toy::Places;
using toy::Positions;

namespace {

/// Which of the frames' hooks ran.
struct Frames {
  using Stateless = ByChoice;
  std::vector<std::string> seen = {};
  std::vector<std::pair<int, long>> counters = {};
  void on_sanity_check_start() { seen.push_back("sanity"); }
  void on_train_start() { seen.push_back("train_start"); }
  void on_train_epoch_end(auto& ctx) { counters.emplace_back(ctx.current_epoch(), ctx.global_step()); }
  void on_train_end(auto& ctx) {
    seen.push_back("train_end");
    counters.emplace_back(ctx.current_epoch(), ctx.global_step());
  }
  void on_fit_end() { seen.push_back("fit_end"); }
};

auto stop_in(std::string_view hook) {
  return Influence{[=](std::string_view where, auto& ctx) {
    if (where == hook) ctx.request_stop();
  }};
}

struct Ended {
  long steps;
  int epochs;
  std::vector<std::string> seen;
};
template <class... Cs>
Ended ended(TrainerOptions options, int n, Cs... callbacks) {
  toy::Validated model;
  auto trainer = toy::train<toy::Validated>(options, Automatic{}, Frames{}, std::move(callbacks)...);
  trainer.fit(model, toy::batches(n), toy::batches(1));
  return {trainer.progress().global_step, trainer.progress().epoch, trainer.template callback<Frames>().seen};
}

long now = 0, tick = 0;
TrainerOptions::Clock::time_point fake() {
  return TrainerOptions::Clock::time_point(std::chrono::seconds(now += tick));
}

using Hooks = std::vector<std::string>;

/// A hundred seconds before training, one for each batch.
struct Prepares : toy::P {
  void on_fit_start() { now += 100; }
  void on_train_batch_end(auto const&, double, auto&) { ++now; }
};

}  // namespace

TEST_CASE("stops asked for elsewhere: at an epoch's start none of its batches runs; at an epoch's end, or by "
          "validation, the next does not") {
  auto const start = ended({.max_epochs = 5, .num_sanity_val_steps = 0}, 3, stop_in("on_train_epoch_start"));
  CHECK(start.steps == 0);
  CHECK(start.epochs == 1);
  CHECK(start.seen == Hooks{"train_start", "train_end", "fit_end"});
  CHECK(ended({.max_epochs = 5}, 3, stop_in("on_train_epoch_end")).steps == 3);
  CHECK(ended({.max_epochs = 5, .val_check_interval = 2, .num_sanity_val_steps = 0}, 3, stop_in("on_validation_end"))
            .steps == 2);
}

TEST_CASE("minima win over a stop: min_steps inside an epoch stops exactly there, min_epochs at an epoch's end") {
  CHECK(ended({.max_epochs = 9, .min_epochs = 3}, 4, toy::stop_at(0, 1)).steps == 12);
  auto const steps = ended({.max_epochs = 9, .min_steps = 6}, 4, toy::stop_at(0, 1));
  CHECK(steps.steps == 6);
  CHECK(steps.epochs == 2);
}

TEST_CASE("max_time is looked at after each batch, and stops inside an epoch; a pending window is stepped") {
  now = 0;
  tick = 1;  // asked once as training begins, then once a batch: elapsed is 1, then 2, 3, ...
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_time = Seconds(3), .now = &fake}, Automatic{.accumulate_grad_batches = 2});
  trainer.fit(model, toy::batches(100));
  CHECK(model.seen.size() == 3);
  CHECK(trainer.progress().global_step == 2);
  CHECK(trainer.progress().logged_steps == 2);
  CHECK(trainer.progress().epoch == 1);
}

TEST_CASE("max_time is of training: what comes before on_train_start is not counted, in each fit anew") {
  now = tick = 0;
  Prepares model;
  auto trainer = toy::train<Prepares>({.max_epochs = 4, .max_time = Seconds(12), .now = &fake}, {});
  trainer.fit(model, toy::batches(5));
  CHECK(trainer.progress().global_step == 12);
  trainer.fit(model, toy::batches(5));
  CHECK(trainer.progress().global_step == 17);
}

TEST_CASE("the first of max_epochs and max_steps ends the run; a cut epoch counts; inside epoch e it is e") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 9, .max_steps = 5}, Automatic{}, Frames{});
  trainer.fit(model, toy::batches(4));
  CHECK(trainer.progress().global_step == 5);
  CHECK(trainer.progress().epoch == 2);
  CHECK(trainer.callback<Frames>().counters == std::vector<std::pair<int, long>>{{0, 4}, {1, 5}, {2, 5}});
  CHECK(ended({.max_epochs = 1, .max_steps = 50}, 4).steps == 4);
  CHECK(ended({.max_epochs = -1, .max_steps = 6}, 4).steps == 6);
}

TEST_CASE("a second fit continues the counters and is over at once where the limits are reached") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 2}, Automatic{}, Frames{});
  trainer.fit(model, toy::batches(3));
  CHECK(trainer.progress().global_step == 6);
  trainer.callback<Frames>().seen.clear();
  trainer.fit(model, toy::batches(3));
  CHECK(trainer.progress().global_step == 6);
  CHECK(trainer.callback<Frames>().seen == Hooks{"fit_end"});

  toy::P other;
  auto stopping = toy::train<toy::P>({.max_epochs = 4}, Automatic{}, Positions{}, toy::stop_at(0, 1));
  stopping.fit(other, toy::batches(3));
  CHECK(stopping.progress().epoch == 1);
  stopping.fit(other, toy::batches(3));  // the first stop is over
  CHECK(stopping.progress().epoch == 4);
  CHECK(stopping.progress().global_step == 2 + 9);
}

TEST_CASE("a fit says what ended it: a limit, a request with its reason or without one, or nothing") {
  auto const by = [](TrainerOptions options, auto... callbacks) {
    options.num_sanity_val_steps = 0;
    toy::Validated model;
    auto trainer = toy::train<toy::Validated>(options, Automatic{}, std::move(callbacks)...);
    trainer.fit(model, toy::batches(3), toy::batches(1));
    return trainer.outcome().ended_by;
  };
  auto const asks = [](auto... why) {
    return Influence{[=](std::string_view where, auto& ctx) {
      if (where == "on_train_epoch_end") ctx.request_stop(why...);
    }};
  };
  CHECK(by({.max_epochs = 2}) == "max_epochs = 2");
  CHECK(by({.max_epochs = 2, .max_steps = 5}) == "max_steps = 5");
  CHECK(by({.max_time = Seconds(0)}) == "max_time");
  CHECK(by({.max_epochs = 2}, asks()) == "a stop that the model or a callback requested");
  CHECK(by({.max_epochs = 2}, asks("the budget is spent")) == "the budget is spent");
  CHECK(by({.max_epochs = 2}, asks("the budget is spent"), Positions{}) == "the budget is spent");
  CHECK(by({.max_epochs = 3, .min_epochs = 3}, asks("the budget is spent")) == "max_epochs = 3");
}

namespace {
struct Fails : toy::Validated {
  bool now = false;
  toy::Tensor training_step(double batch, auto& ctx) {
    if (now) throw Error("fulgurite.test.step", "a step failed");
    return toy::Validated::training_step(batch, ctx);
  }
};
}  // namespace

TEST_CASE("a fit that fails says of no end, and neither does the one before") {
  Fails model;
  auto trainer = toy::train<Fails>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  CHECK(trainer.outcome().ended_by == "max_epochs = 1");
  model.now = true;
  trainer.set_options({.max_epochs = 2, .num_sanity_val_steps = 0});
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(1), toy::batches(1)); }) == "fulgurite.test.step");
  CHECK(trainer.outcome().ended_by.empty());
}
