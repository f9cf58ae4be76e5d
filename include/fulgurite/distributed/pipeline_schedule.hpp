#pragma once
// The order in which each process of a pipeline takes micro batches forward and backward, and how a model and a batch
// are cut. Plain numbers: nothing here knows tensors or processes.

#include <cstdint>
#include <vector>

#include <fulgurite/core/body.hpp>

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
std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// Of how many micro batches such a process keeps activations at the same time, at most.
int most_kept(std::vector<PipelineAction> const& actions);

/// Cuts a row of weights into `parts` neighbourhoods of at least one each, so that the heaviest is as light as it can
/// be; how many each has. Of several such cuts it takes the one whose first parts are fullest. Needs 1 <= parts <=
/// weights.size().
std::vector<int> balanced(std::vector<std::int64_t> const& weights, int parts);

/// How many of `count` stages each of `processes` runs: as `asked`, else by their numbers of parameters. An Error where
/// that does not come out even, or somebody would have none.
std::vector<int> stages_of_ranks(std::vector<int> const& asked, std::vector<std::int64_t> const& parameters,
                                 int processes);

/// The sizes of the micro batches of a batch: as even as can be, the larger ones first; fewer than asked for where the
/// batch has fewer samples.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, int micro_batches);

}  // namespace distributed
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/pipeline_schedule.ipp>
#endif
