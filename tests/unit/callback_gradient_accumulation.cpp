#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>

#include <models.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {
/// Steps of each epoch, and where they were.
struct Course {
  std::vector<int> per_epoch;
  toy::Places steps;
  long global_step;
};
Course course(std::map<int, int> scheduling, int batches, int epochs) {
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = epochs}, {}, toy::Positions{}, GradientAccumulationScheduler{std::move(scheduling)});
  trainer.fit(model, toy::batches(batches));
  auto const& steps = trainer.template callback<toy::Positions>().steps;
  std::vector<int> per_epoch(static_cast<std::size_t>(epochs));
  for (auto const& [epoch, batch] : steps) ++per_epoch[static_cast<std::size_t>(epoch)];
  return {per_epoch, steps, trainer.progress().global_step};
}
}  // namespace

TEST_CASE("C6 accumulation schedule {1: 2, 3: 4} over 10 batches: 10, 5, 5, 3 steps") {
  auto const run = course({{1, 2}, {3, 4}}, 10, 4);
  CHECK(run.per_epoch == std::vector<int>{10, 5, 5, 3});
  CHECK(run.global_step == 23);
  CHECK(toy::Places(run.steps.end() - 3, run.steps.end()) == toy::Places{{3, 3}, {3, 7}, {3, 9}});
}

TEST_CASE("C7 accumulation schedule {0: 8, 4: 4, 8: 1}: a key holds until the next one (S6)") {
  auto const run = course({{0, 8}, {4, 4}, {8, 1}}, 8, 10);
  CHECK(run.per_epoch == std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2, 8, 8});
  CHECK(run.global_step == 28);
}

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
