#pragma once
// The bodies of torch/optim/arena.hpp.

#include <ATen/ops/_foreach_zero.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/optim/arena.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY void Arena::zero_grad() {
  Mode const mode;
  put_right();
  for (auto& buffer : buffers_) {
    if (buffer.some_stay && !buffer.taken) clear_each(buffer);
    else clear_all(buffer);
    buffer.version = version_of(buffer.gradients);
  }
  for (auto& slot : slots_) {
    slot.received = false;
    slot.version = version_of(slot.gradient);
    if (slot.stays) slot.parameter.mutable_grad().reset();
    else if (slot.parameter.requires_grad() && !slot.held().defined()) slot.parameter.mutable_grad() = slot.gradient;
  }
}

FULGURITE_BULK_BODY void Arena::look() {
  Mode const mode;
  look_in_mode();
}

FULGURITE_BULK_BODY void Arena::look_in_mode() {
  put_right();
  for (auto& buffer : buffers_) {
    auto const now = version_of(buffer.gradients);
    if (now == buffer.version) continue;  // a replay may have cleared the gradients without calling zero_grad()
    buffer.version = now;
    for (auto const i : buffer.slots) slots_[i].received = false;
  }
  for (auto& slot : slots_) {
    auto const now = version_of(slot.gradient);
    if (!slot.held().defined()) {
      if (slot.received || now != slot.version) slot.gradient.zero_();
      slot.received = false;
      slot.version = version_of(slot.gradient);
    } else if (now != slot.version || is_elsewhere(slot)) {
      slot.received = true;
      slot.version = now;
    }
  }
}

FULGURITE_BULK_BODY std::vector<bool> Arena::received() {
  look();
  std::vector<bool> all;
  for (auto const& slot : slots_) all.push_back(slot.received);
  return all;
}

FULGURITE_BULK_BODY void Arena::set_received(std::vector<bool> const& all) {
  for (auto& buffer : buffers_) buffer.version = version_of(buffer.gradients);
  for (std::size_t i = 0; i != slots_.size(); ++i) {
    slots_[i].received = all[i];
    slots_[i].version = version_of(slots_[i].gradient);
  }
}

FULGURITE_BULK_BODY void Arena::clear_each(Buffer const& buffer) {
  for (auto const i : buffer.slots)
    if (slots_[i].stays) clear_unused(slots_[i]);
    else slots_[i].gradient.zero_();
}

/// The gaps between slices are cleared: where all gradients are multiplied by nan, so are these.
FULGURITE_BULK_BODY void Arena::leave_uncleared(Buffer const& buffer) {
  std::vector<at::Tensor> gaps;
  std::int64_t end = 0;
  auto const add_gap = [&](std::int64_t to) {
    if (to != end) gaps.push_back(buffer.gradients_too.narrow(0, end, to - end));
  };
  for (auto const i : buffer.slots) {
    auto const& slot = slots_[i];
    to_overwrite->push_back({slot.gradient, version_of(slot.gradient)});
    add_gap(slot.begin);
    end = slot.begin + slot.gradient.numel();
  }
  add_gap(buffer.size);
  if (!gaps.empty()) at::_foreach_zero_(gaps);
}

FULGURITE_BULK_BODY void Arena::clear_all(Buffer& buffer) {
  if (to_overwrite) leave_uncleared(buffer);
  else buffer.gradients.zero_();
  buffer.taken = false;
  if (buffer.some_stay)
    for (auto const i : buffer.slots) slots_[i].cleared = version_of(slots_[i].gradient);
}

FULGURITE_BULK_BODY ArenaParameters::ArenaParameters(Arena& arena)
    : std::span<at::Tensor const>(arena.parameters()), arena_(&arena) {
  arena.look();
}

FULGURITE_BULK_BODY bool ArenaParameters::has_gradient(std::size_t position) const {
  return arena_->slots()[position].received;
}

FULGURITE_BULK_BODY bool ArenaParameters::no_gradients() const {
  bool none = true;
  arena_->each_gradient([&](auto const&) { none = false; });
  return none;
}

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_BULK_BODY std::vector<at::Tensor> own_states(libtorch::Arena const& arena) {
  std::vector<at::Tensor> all;
  for (auto const& buffer : arena.buffers())
    for (auto const& flat : buffer.states)
      if (flat.defined()) all.push_back(flat);
  return all;
}

FULGURITE_BULK_BODY SavedPart own_part(libtorch::Arena const& arena) {
  SavedPart part{arena.part().mine, arena.part().of, {}};
  for (auto const& flat : own_states(arena)) part.states.push_back(libtorch::saved(flat).written_last());
  return part;
}

FULGURITE_BULK_BODY void require_own(libtorch::Arena const& arena, SavedPart const& part, std::string_view optimizer) {
  auto const own = own_states(arena);
  bool fits = part.mine == arena.part().mine && part.of == arena.part().of && part.states.size() == own.size();
  for (std::size_t i = 0; fits && i != own.size(); ++i) fits = libtorch::fits(own[i], part.states[i]);
  if (!fits)
    throw Error("fulgurite.optim.part",
                "the saved state of " + std::string(optimizer) + " is the part of rank " + std::to_string(part.mine) +
                    " of " + std::to_string(part.of) +
                    " only, as a rank writes it when it fails alone: resume from an earlier file, or start a new "
                    "fit with its weights by load_weights(model, file)");
}

FULGURITE_BULK_BODY at::Tensor const& ParameterState::operator[](std::string_view name) const {
  auto const found = tensors.find(name);
  if (found == tensors.end())
    throw Error("fulgurite.optim.state_name",
                "this optimizer keeps no '" + std::string(name) + "' with its present options");
  return found->second;
}

void SavedState::state(auto& archive) { archive("name", name)("value", value); }
FULGURITE_STATE(SavedState)

void SavedParameter::state(auto& archive) { archive("name", name)("group", group)("steps", steps)("states", states); }
FULGURITE_STATE(SavedParameter)

void SavedPart::state(auto& archive) { archive("mine", mine)("of", of)("states", states); }
FULGURITE_STATE(SavedPart)

}  // namespace fulgurite::optim
