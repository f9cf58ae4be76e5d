#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>

#include <models.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

TEST_CASE("W17 accumulation schedule: empty, negative epochs and windows below 1 are refused") {
  for (std::map<int, int> const& wrong : {std::map<int, int>{}, {{-1, 2}}, {{0, 0}}, {{0, 4}, {3, -2}}})
    CHECK(error_of([&] { GradientAccumulationScheduler{wrong}; }).starts_with("[fulgurite.callback.accumulation] GradientAccumulationScheduler "));
}

TEST_CASE("W18 accumulation schedule: refused beside accumulate_grad_batches, before the first batch") {
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = 1}, {.accumulate_grad_batches = 2}, GradientAccumulationScheduler{{{0, 4}}});
  CHECK(error_of([&] { trainer.fit(model, toy::batches(4)); }) ==
        "[fulgurite.callback.accumulation] GradientAccumulationScheduler and accumulate_grad_batches = 2 would both set the window: leave one of them out");
  CHECK(model.stepped.empty());
}

TEST_CASE("accumulation schedule: a second fit starts from its own windows") {
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = 1}, {}, GradientAccumulationScheduler{{{0, 4}}});
  trainer.fit(model, toy::batches(4));
  trainer.fit(model, toy::batches(4));  // the window that the first one left is not taken for an option
  CHECK(model.stepped.size() == 2);
}

static_assert(GradientAccumulationScheduler::needs_automatic);
