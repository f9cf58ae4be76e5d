#pragma once
// The order in which each process of a pipeline takes micro batches forward and backward, and how a model and a batch
// are cut. Plain numbers: nothing here knows tensors or processes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// When a process of a pipeline begins with backward. Both make the same gradients, bit for bit, since each process
/// adds up those of its micro batches in their order; idle time is the same, too.
enum class PipelineSchedule : std::uint8_t {
  one_f_one_b,  ///< as soon as it can, and then by turns: at most as many micro batches are kept as processes follow
  gpipe         ///< after the forward of all micro batches, which are all kept until then
};

namespace distributed {

/// One thing that a process of a pipeline does.
struct PipelineAction {
  enum class Kind : std::uint8_t { forward, backward };
  Kind kind;
  int micro_batch;

  friend constexpr bool operator==(PipelineAction const&, PipelineAction const&) = default;
};

/// All that process `stage` of `stages` does with one batch of so many micro batches. A forward waits for the process
/// before, a backward for the one behind; none waits for somebody to receive what it sends, so that this order never
/// comes to a standstill.
inline std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages,
                                                    int micro_batches) {
  using enum PipelineAction::Kind;
  std::vector<PipelineAction> actions;
  // So many are on their way through the processes behind this one before the first comes back.
  int const ahead = schedule == PipelineSchedule::gpipe ? micro_batches : std::min(stages - stage, micro_batches);
  int next = 0;
  while (next != ahead) actions.push_back({forward, next++});
  for (int done = 0; done != micro_batches; ++done) {
    actions.push_back({backward, done});
    if (next != micro_batches) actions.push_back({forward, next++});
  }
  return actions;
}

/// Of how many micro batches such a process keeps activations at the same time, at most.
inline int most_kept(std::vector<PipelineAction> const& actions) {
  int kept = 0, most = 0;
  for (auto const& action : actions) {
    kept += action.kind == PipelineAction::Kind::forward ? 1 : -1;
    most = std::max(most, kept);
  }
  return most;
}

/// Cuts a row of weights into `parts` neighbourhoods of at least one each, so that the heaviest is as light as it can
/// be; how many each has. Of several such cuts it takes the one whose first parts are fullest. Needs 1 <= parts <=
/// weights.size().
inline std::vector<int> balanced(std::vector<std::int64_t> const& weights, int parts) {
  auto const cut = [&](std::int64_t most) {  // empty where `most` is too little
    std::vector<int> counts{0};
    std::int64_t sum = 0;
    for (std::size_t i = 0; i != weights.size(); ++i) {
      auto const behind = static_cast<std::size_t>(parts) - counts.size();  // parts that still need one each
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

/// How many of `count` stages each of `processes` runs: as `asked`, else by their numbers of parameters. An Error where
/// that does not come out even, or somebody would have none.
inline std::vector<int> stages_of_ranks(std::vector<int> const& asked, std::vector<std::int64_t> const& parameters,
                                        int processes) {
  auto const count = static_cast<int>(parameters.size());
  if (count < processes)
    throw Error("fulgurite.pipeline.too_few",
                "stages() names " + std::to_string(count) + " and there are " + std::to_string(processes) +
                    " processes, each of which needs one at least: name smaller stages, or start fewer processes");
  if (asked.empty()) {
    std::vector<std::int64_t> weights;  // a stage without parameters is some work, too
    for (auto const number : parameters) weights.push_back(number + 1);
    return balanced(weights, processes);
  }
  bool fits = static_cast<int>(asked.size()) == processes;
  for (int const one : asked) fits = fits && one >= 1;
  if (!fits || std::accumulate(asked.begin(), asked.end(), 0) != count) {
    std::string text;
    for (int const one : asked) text.append(text.empty() ? "" : ", ").append(std::to_string(one));
    throw Error("fulgurite.pipeline.balance", ".balance = {" + text + "} does not share " + std::to_string(count) +
                                                  " stages between " + std::to_string(processes) +
                                                  " processes: name one number of at least 1 for each, whose sum is " +
                                                  std::to_string(count) + ", or leave it out");
  }
  return asked;
}

/// The sizes of the micro batches of a batch: as even as can be, the larger ones first; fewer than asked for where the
/// batch has fewer samples.
inline std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, int micro_batches) {
  auto const count = std::min<std::int64_t>(samples, micro_batches);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i != count; ++i) sizes.push_back(samples / count + (i < samples % count ? 1 : 0));
  return sizes;
}

}  // namespace distributed
}  // namespace fulgurite
