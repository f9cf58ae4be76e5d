#pragma once
// The bodies of torch/capture/captured.hpp.

#include <ATen/MemoryOverlap.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/capture/captured.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY void CapturedModel::look_at_model() {
  if (!world_) world_.emplace(*model_, object_, device_);
}

FULGURITE_BULK_BODY Scene CapturedModel::scene() { return {*world_, *model_, parts_.tensors}; }

/// True if the elements of an input can be copied to a tensor of the same strides.
FULGURITE_BODY bool can_be_copied(at::Tensor const& input) {
  return at::has_internal_overlap(input) != at::MemOverlap::Yes;
}

FULGURITE_BULK_BODY std::string CapturedModel::unfit() const {
  if (!world_->refusal().empty()) return world_->refusal();
  for (auto const& tensor : parts_.tensors)
    if (tensor.defined() && (!is_plain(tensor, device_) || !can_be_copied(tensor) || tensor.requires_grad()))
      return "the batch has a tensor that is not a dense real one of " + name_of(device_) +
             ", or that needs a gradient";
  return {};
}

FULGURITE_BULK_BODY void CapturedModel::none_waits(StepKind& kind) {
  unchecked_ -= std::exchange(kind.unchecked, 0);
  kind.fresh = false;
}

FULGURITE_BODY bool CapturedModel::only_checks(StepKind& kind, bool at_end) const {
  if (std::exchange(kind.replays, replays_) != replays_ || !at_end) kind.idle = 0;
  return at_end && ++kind.idle == 16;
}

FULGURITE_BULK_BODY void CapturedModel::unproven(StepKind& kind) {
  if (!kind.fresh) report_->unproven += kind.unchecked;
  none_waits(kind);
}

FULGURITE_BULK_BODY void CapturedModel::wrong_replay(StepKind const& kind, std::string const& wrong,
                                                     bool same_model) const {
  throw loop::WrongReplay(who_changed(*world_, kind.host) + " (" + std::to_string(kind.unchecked) + " steps; " + wrong +
                              ")" + (kind.trusted ? found_late : ""),
                          same_model);
}

FULGURITE_BODY void CapturedModel::stay_as_written(std::string const& reason, bool given) {
  off_ = true;
  stays_as_written(*report_, reason, given);
}

FULGURITE_BULK_BODY void CapturedModel::forget_model() {
  unchecked_ = 0;
  half_checked_ = false;
  world_.reset();
}

FULGURITE_BULK_BODY void CapturedModel::forget_changed_model() {
  ++replays_;
  ++report_->dropped;
  forget_model();
  if (++times_void_ > most_changes)
    stay_as_written("parameters, gradients, buffers or switches of the model are replaced again and again");
}

FULGURITE_BODY void require_steps_a_replay(int steps) {
  if (steps < 1 || steps > graph::UpdateInGraph::most_rows)
    throw Error("fulgurite.capture.steps_a_replay", "`steps_a_replay` must be from 1 to " +
                                                        std::to_string(graph::UpdateInGraph::most_rows) + ", got " +
                                                        std::to_string(steps));
}

}  // namespace fulgurite::libtorch::capture
