#pragma once
// What a pipeline keeps during a fit, and how it takes a batch.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/micro_batches.hpp>
#include <fulgurite/distributed/model_parts.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/distributed/stage_runner.hpp>
#include <fulgurite/torch/device/backend.hpp>

namespace fulgurite::distributed {

/// What the strategy keeps during a fit. A copy of the strategy begins with nothing.
struct PipelineState {
  ModelParts parts = {};
  std::unique_ptr<StageRunner> runner = nullptr;
  std::vector<std::string> account = {};  ///< of the run before
  Group* group = nullptr;
  bool has_failed = false;
  bool has_all_gradients = true;  ///< a file of an open window was written, or may have been gone on from

  PipelineState() = default;
  PipelineState(PipelineState const&) : PipelineState() {}
  PipelineState(PipelineState&&) noexcept = default;
  PipelineState& operator=(PipelineState const&) { return *this = PipelineState(); }
  PipelineState& operator=(PipelineState&&) noexcept = default;

  /// Forward and backward of all micro batches of a batch; their mean loss, on the last process.
  template <class Batch, class Step>
  double take(Batch& batch, int micro_batches, PipelineSchedule schedule, Step& step) {
    auto parts_of_batch = micro_batches_of(batch, micro_batches);
    auto const fingerprint = fingerprint_of(batch);
    auto const count = static_cast<int>(parts_of_batch.size());
    std::vector<at::Tensor> losses(parts_of_batch.size());
    double sum = 0;
    runner->begin(count);
    auto const& place = group->place();
    for (auto const& [kind, at] : pipeline_actions(schedule, place.rank, place.world, count)) {
      auto const i = static_cast<std::size_t>(at);
      if (kind == PipelineAction::Kind::forward) {
        runner->forward(at, fingerprint, [&] { losses[i] = step.forward(parts_of_batch[i]); });
        continue;
      }
      if (runner->is_last()) {
        step.backward(losses[i], count);
        sum += libtorch::read(losses[i]);
        losses[i].reset();
      }
      runner->backward(at);
    }
    runner->finish();
    return sum / count;
  }
};

}  // namespace fulgurite::distributed
