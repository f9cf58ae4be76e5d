#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>

#include <models.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

TEST_CASE("W17 accumulation schedule: empty, negative epochs and windows below 1 are refused") {
  for (std::map<int, int> const& wrong : {std::map<int, int>{}, {{-1, 2}}, {{0, 0}}, {{0, 4}, {3, -2}}})
    CHECK(error_of([&] {
            GradientAccumulationScheduler{wrong};
          }).starts_with("[fulgurite.callback.accumulation] GradientAccumulationScheduler "));
}

TEST_CASE("accumulation schedule: braces around all pairs may be left out") {
  GradientAccumulationScheduler const one{{4, 4}}, two{{0, 8}, {4, 4}}, all{{{0, 8}, {4, 4}}}, single{{{4, 4}}};
  CHECK(one.window(3) == 1);
  CHECK(one.window(4) == 4);
  CHECK(single.window(4) == 4);
  for (int const epoch : {0, 3, 4, 9}) CHECK(two.window(epoch) == all.window(epoch));
  CHECK(two.window(0) == 8);
}

TEST_CASE("W18 accumulation schedule: refused beside accumulate_grad_batches, before the first batch") {
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = 1}, {.accumulate_grad_batches = 2},
                                        GradientAccumulationScheduler{{{0, 4}}});
  CHECK(error_of([&] { trainer.fit(model, toy::batches(4)); }) ==
        "[fulgurite.callback.accumulation] GradientAccumulationScheduler and accumulate_grad_batches = 2 would both "
        "set the window: leave one of them out");
  CHECK(model.stepped.empty());
}

TEST_CASE("accumulation schedule: the window that a fit leaves is not taken for an option of the next") {
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = 1}, {}, GradientAccumulationScheduler{{{0, 4}}});
  trainer.fit(model, toy::batches(4));
  trainer.fit(model, toy::batches(4));
  CHECK(model.stepped.size() == 1);  // all epochs were done
}

namespace {
struct Own : toy::Slope {
  void optimizer_zero_grad(toy::Sgd& optimizer) { optimizer.zero_grad(); }
};
}  // namespace

TEST_CASE("accumulation schedule: a model that clears or steps by itself is told of") {
  auto const warning = [](auto model) {
    return said([&] {
      auto trainer = toy::train<decltype(model)>({.max_epochs = 1}, {}, GradientAccumulationScheduler{{{0, 4}}});
      trainer.fit(model, toy::batches(4));
    });
  };
  CHECK(warning(toy::Slope{}).empty());
  CHECK(warning(Own{}).starts_with("warning: [fulgurite.callback.once_a_window] GradientAccumulationScheduler: the "
                                   "model has an optimizer_step or optimizer_zero_grad of its own"));
}

static_assert(GradientAccumulationScheduler::needs_automatic);

TEST_CASE("a window that is longer than an epoch is warned of, whoever sets it") {
  auto const warned = [](TrainerOptions const& options, int window, int batches, auto... callbacks) {
    return said([&] {
      toy::Slope model;
      auto trainer = toy::train<toy::Slope>(options, {.accumulate_grad_batches = window}, std::move(callbacks)...);
      trainer.fit(model, toy::batches(batches));
      CHECK(model.stepped.size() != 0);
    });
  };
  std::string const sentence =
      "warning: [fulgurite.options.long_window] accumulate_grad_batches = 8 is more than the 3 batches of an epoch. A "
      "window ends with its epoch, so each step is the mean of 3 batches: lower accumulate_grad_batches, or make "
      "epochs "
      "longer\n";
  CHECK(warned({.max_epochs = 2}, 8, 3) == sentence);
  CHECK(warned({.max_epochs = 2, .limit_train_batches = Batches{3}}, 8, 100) == sentence);
  CHECK(warned({.max_epochs = 1}, 1, 3, GradientAccumulationScheduler{{{1, 8}}}).empty());
  CHECK(warned({.max_epochs = 2}, 1, 3, GradientAccumulationScheduler{{{1, 8}}}) == sentence);
  CHECK(warned({.max_epochs = 2}, 3, 3).empty());
  CHECK(warned({.max_epochs = 2}, 2, 3).empty());
  CHECK(warned({.max_epochs = 2, .silence = {"fulgurite.options.long_window"}}, 8, 3).empty());
  CHECK(warned({.fast_dev_run = 1}, 8, 3).find("long_window") == std::string::npos);
}
