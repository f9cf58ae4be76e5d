#pragma once
// The order in which each process of a pipeline runs forward and backward of micro batches, and how a model and a batch
// are cut. Plain numbers, without tensors or processes.

#include <cstdint>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

/// When a process of a pipeline begins with backward. Both schedules give the same gradients, bit for bit, since each
/// process adds up those of its micro batches in their order; they idle equally long.
enum class PipelineSchedule : std::uint8_t {
  one_f_one_b,  ///< as early as possible, then alternating: keeps at most as many micro batches as there are later
                ///< stages
  gpipe         ///< after the forward of all micro batches, all of which are kept
};

namespace distributed {

/// One action of a pipeline's process.
struct PipelineAction {
  enum class Kind : std::uint8_t { forward, backward };
  Kind kind;
  int micro_batch;

  friend constexpr bool operator==(PipelineAction const&, PipelineAction const&) = default;
};

/// The actions of process `stage` of `stages` for one batch with this number of micro batches. A forward waits for the
/// previous process, a backward for the next one; a send does not wait for its receiver, so this order cannot deadlock.
std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// Cuts a row of weights into `parts` contiguous parts of at least one weight, such that the largest sum is as small as
/// possible. Returns the number of weights in each part. Among several such cuts it chooses the one whose first parts
/// are fullest. Needs 1 <= parts <= weights.size().
std::vector<int> balanced(std::vector<std::int64_t> const& weights, int parts);

/// The number of the `count` stages that each of `processes` runs: as `asked`, or by their numbers of parameters if
/// `asked` is empty. Throws an Error if the numbers do not add up, or a process would have none.
std::vector<int> stages_of_ranks(std::vector<int> const& asked, std::vector<std::int64_t> const& parameters,
                                 int processes);

/// The sizes of a batch's micro batches: as even as possible, the larger ones first. There are fewer micro batches than
/// requested if the batch has fewer samples.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, int micro_batches);

}  // namespace distributed
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/pipeline_schedule.ipp>
#endif
