#pragma once
// The bodies of distributed/pipeline_schedule.hpp.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages,
                                                            int micro_batches) {
  using enum PipelineAction::Kind;
  std::vector<PipelineAction> actions;
  // The number of micro batches that are in the later processes before the first one comes back.
  int const ahead = schedule == PipelineSchedule::gpipe ? micro_batches : std::min(stages - stage, micro_batches);
  int next = 0;
  while (next != ahead) actions.push_back({forward, next++});
  for (int done = 0; done != micro_batches; ++done) {
    actions.push_back({backward, done});
    if (next != micro_batches) actions.push_back({forward, next++});
  }
  return actions;
}

FULGURITE_BODY std::vector<int> balanced(std::vector<std::int64_t> const& weights, int parts) {
  auto const cut = [&](std::int64_t most) {  // empty if `most` is too small
    std::vector<int> counts{0};
    std::int64_t sum = 0;
    for (std::size_t i = 0; i != weights.size(); ++i) {
      auto const behind = static_cast<std::size_t>(parts) - counts.size();  // later parts, which need at least one each
      bool const full = counts.back() != 0 && (sum + weights[i] > most || weights.size() - i <= behind);
      if (full && behind == 0) return std::vector<int>();
      if (full) {
        counts.push_back(0);
        sum = 0;
      }
      sum += weights[i];
      ++counts.back();
    }
    return counts;
  };
  std::int64_t low = *std::max_element(weights.begin(), weights.end());
  std::int64_t high = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  while (low != high) {
    auto const middle = low + (high - low) / 2;
    if (cut(middle).empty()) low = middle + 1;
    else high = middle;
  }
  return cut(low);
}

FULGURITE_BODY std::vector<int> stages_of_ranks(std::vector<int> const& asked,
                                                std::vector<std::int64_t> const& parameters, int processes) {
  auto const count = static_cast<int>(parameters.size());
  if (count < processes)
    throw Error("fulgurite.pipeline.too_few",
                "stages() names " + std::to_string(count) + " and there are " + std::to_string(processes) +
                    " processes, each of which needs one at least: name smaller stages, or start fewer processes");
  if (asked.empty()) {
    std::vector<std::int64_t> weights;  // + 1, since a stage without parameters also takes time
    for (auto const number : parameters) weights.push_back(number + 1);
    return balanced(weights, processes);
  }
  bool fits = static_cast<int>(asked.size()) == processes;
  for (int const one : asked) fits = fits && one >= 1;
  if (!fits || std::accumulate(asked.begin(), asked.end(), 0) != count)
    throw Error("fulgurite.pipeline.balance",
                ".balance = {" + listed(asked) + "} does not share " + std::to_string(count) + " stages between " +
                    std::to_string(processes) + " processes: name one number of at least 1 for each, whose sum is " +
                    std::to_string(count) + ", or leave it out");
  return asked;
}

FULGURITE_BODY std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, int micro_batches) {
  auto const count = std::min<std::int64_t>(samples, micro_batches);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i != count; ++i) sizes.push_back(samples / count + (i < samples % count ? 1 : 0));
  return sizes;
}

}  // namespace fulgurite::distributed
