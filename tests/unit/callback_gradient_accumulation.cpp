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
