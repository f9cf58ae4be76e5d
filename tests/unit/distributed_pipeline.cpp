// The order of a pipeline's work, played through on processes that are a few numbers each.

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

using namespace fulgurite;
using distributed::PipelineAction;
using enum PipelineAction::Kind;
using enum PipelineSchedule;

namespace {

std::string text(std::vector<PipelineAction> const& actions) {
  std::string said;
  for (auto const& [kind, micro_batch] : actions) {
    said.append(said.empty() ? "" : " ").append(kind == forward ? "F" : "B").append(std::to_string(micro_batch));
  }
  return said;
}

/// Processes with a queue in each direction between neighbours. In each round each of them does one thing, if what it
/// waits for is there.
struct Played {
  bool over = true;      ///< nobody waited for ever
  bool in_order = true;  ///< each message was the one that was waited for
  int rounds = 0;
  std::vector<int> kept;  ///< of how many micro batches each kept activations, at most

  Played(PipelineSchedule schedule, int stages, int micro_batches) : kept(static_cast<std::size_t>(stages)) {
    auto const n = static_cast<std::size_t>(stages);
    std::vector<std::vector<PipelineAction>> all;
    for (int stage = 0; stage != stages; ++stage)
      all.push_back(distributed::pipeline_actions(schedule, stage, stages, micro_batches));
    std::vector<std::deque<int>> up(n + 1), down(n + 1);  // up[i]: to process i; down[i]: from process i
    std::vector<std::size_t> at(n, 0);
    std::vector<int> now(n, 0);
    for (bool moved = true; std::exchange(moved, false);) {
      auto const ups = up, downs = down;  // what was there when the round began
      std::vector<std::size_t> taken_up(n + 1), taken_down(n + 1);
      for (std::size_t i = 0; i != n; ++i) {
        if (at[i] == all[i].size()) continue;
        auto const [kind, micro_batch] = all[i][at[i]];
        bool const is_forward = kind == forward;
        bool const waits = is_forward ? i != 0 : i + 1 != n;
        auto const& before = is_forward ? ups[i] : downs[i + 1];
        if (waits && before.empty()) continue;
        if (waits) {
          auto& queue = is_forward ? up[i] : down[i + 1];
          in_order = in_order && queue.front() == micro_batch;
          queue.pop_front();
        }
        now[i] += is_forward ? 1 : -1;
        kept[i] = std::max(kept[i], now[i]);
        if (is_forward && i + 1 != n) up[i + 1].push_back(micro_batch);
        if (!is_forward && i != 0) down[i].push_back(micro_batch);
        ++at[i];
        moved = true;
      }
      rounds += moved;
    }
    for (std::size_t i = 0; i != n; ++i) over = over && at[i] == all[i].size();
    for (auto const& queue : up) over = over && queue.empty();
    for (auto const& queue : down) over = over && queue.empty();
  }
};

std::string refusal(std::vector<int> const& asked, std::vector<std::int64_t> const& parameters, int processes) {
  try {
    distributed::stages_of_ranks(asked, parameters, processes);
  } catch (Error const& error) { return std::string(error.identifier()) + ": " + error.what(); }
  return "";
}

}  // namespace

TEST_CASE("pipeline: GPipe takes all forward, then all backward") {
  for (int stage = 0; stage != 3; ++stage)
    CHECK(text(distributed::pipeline_actions(gpipe, stage, 3, 4)) == "F0 F1 F2 F3 B0 B1 B2 B3");
}

TEST_CASE("pipeline: 1F1B goes backward as soon as it can, and then by turns") {
  CHECK(text(distributed::pipeline_actions(one_f_one_b, 0, 3, 5)) == "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  CHECK(text(distributed::pipeline_actions(one_f_one_b, 1, 3, 5)) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  CHECK(text(distributed::pipeline_actions(one_f_one_b, 2, 3, 5)) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  CHECK(text(distributed::pipeline_actions(one_f_one_b, 0, 4, 2)) == "F0 F1 B0 B1");
  CHECK(text(distributed::pipeline_actions(one_f_one_b, 0, 1, 2)) == "F0 B0 F1 B1");
}

TEST_CASE("pipeline: no order comes to a standstill, and each message is the one that is waited for") {
  for (auto const schedule : {gpipe, one_f_one_b})
    for (int stages = 1; stages != 7; ++stages)
      for (int micro_batches = 1; micro_batches != 12; ++micro_batches) {
        CAPTURE(stages, micro_batches, schedule == gpipe);
        Played const played(schedule, stages, micro_batches);
        CHECK(played.over);
        CHECK(played.in_order);
        // Each process has 2 m things to do; the pipeline fills and empties once.
        CHECK(played.rounds == 2 * (micro_batches + stages - 1));
        for (int stage = 0; stage != stages; ++stage) {
          int const kept = played.kept[static_cast<std::size_t>(stage)];
          CHECK(kept == (schedule == gpipe ? micro_batches : std::min(micro_batches, stages - stage)));
        }
      }
}

TEST_CASE("pipeline: backward comes in the order of micro batches under both schedules") {
  for (auto const schedule : {gpipe, one_f_one_b})
    for (int stage = 0; stage != 4; ++stage) {
      int next = 0;
      for (auto const& action : distributed::pipeline_actions(schedule, stage, 4, 9))
        if (action.kind == backward) CHECK(action.micro_batch == next++);
      CHECK(next == 9);
    }
}

TEST_CASE("pipeline: stages are shared out so that the heaviest share is as light as it can be") {
  using Counts = std::vector<int>;
  CHECK(distributed::balanced({1, 1, 1, 1}, 2) == Counts{2, 2});
  CHECK(distributed::balanced({9, 1, 1, 1}, 2) == Counts{1, 3});
  CHECK(distributed::balanced({1, 1, 1, 9}, 2) == Counts{3, 1});
  CHECK(distributed::balanced({1, 1, 1, 1, 1}, 2) == Counts{3, 2});
  CHECK(distributed::balanced({5, 0, 0}, 3) == Counts{1, 1, 1});
  CHECK(distributed::balanced({100, 1, 1}, 2) == Counts{1, 2});
  CHECK(distributed::balanced({7}, 1) == Counts{1});
  // Against all cuts there are.
  std::vector<std::int64_t> const weights{4, 8, 1, 1, 9, 2, 6, 3};
  auto const heaviest = [&](Counts const& counts) {
    std::int64_t most = 0;
    std::size_t at = 0;
    for (int const count : counts) {
      std::int64_t sum = 0;
      for (int i = 0; i != count; ++i) sum += weights[at++];
      most = std::max(most, sum);
    }
    return most;
  };
  std::int64_t best = 1000;
  for (int a = 1; a != 7; ++a)
    for (int b = 1; a + b < 8; ++b) best = std::min(best, heaviest({a, b, 8 - a - b}));
  CHECK(heaviest(distributed::balanced(weights, 3)) == best);
}

TEST_CASE("pipeline: a balance is taken as it is given, and one that does not come out even is refused") {
  CHECK(distributed::stages_of_ranks({1, 3}, {5, 5, 5, 5}, 2) == std::vector<int>{1, 3});
  CHECK(distributed::stages_of_ranks({}, {40, 0, 40, 0}, 2) == std::vector<int>{2, 2});
  CHECK(refusal({}, {1}, 2).starts_with("fulgurite.pipeline.too_few"));
  for (auto const& wrong : {std::vector<int>{2, 2, 2}, {4, 0}, {2, 3}, {4}})
    CHECK(refusal(wrong, {5, 5, 5, 5}, 2).starts_with("fulgurite.pipeline.balance"));
}

TEST_CASE("pipeline: micro batches are as even as can be, and none is empty") {
  using Sizes = std::vector<std::int64_t>;
  CHECK(distributed::micro_batch_sizes(8, 4) == Sizes{2, 2, 2, 2});
  CHECK(distributed::micro_batch_sizes(7, 4) == Sizes{2, 2, 2, 1});
  CHECK(distributed::micro_batch_sizes(3, 4) == Sizes{1, 1, 1});
  CHECK(distributed::micro_batch_sizes(5, 1) == Sizes{5});
}
