#pragma once
// What an optimizer keeps of the parameters of an arena: all of it, or the part of one process.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/torch/optim/arena_part.hpp>
#include <fulgurite/torch/optim/arena_slices.hpp>

namespace fulgurite::libtorch {

/// A parameter, and its place in a buffer.
struct ArenaSlot {
  at::Tensor parameter = {};
  std::size_t group = 0;
  std::size_t buffer = 0;
  std::int64_t begin = 0;  ///< in elements of the buffer
  at::Tensor gradient = {};
  std::vector<at::Tensor> states = {};  ///< undefined where the optimizer does not keep that one, or not all of it
  bool received = false;                ///< it has a gradient, as LibTorch understands it
  std::uint32_t version = 0;            ///< of the gradient, when last looked at
  bool stays = false;                   ///< its gradient may stay where backward has made it
  std::uint32_t cleared = 0;            ///< the version of `gradient` when that, staying unused, was cleared
  long steps = 0;
};
/// Flat tensors of one element type on one device, in which slots lie one after the other; of the states it may have a
/// part alone.
struct ArenaBuffer {
  at::Tensor parameters = {}, gradients = {};
  at::Tensor gradients_too = {};  ///< the same memory for clipping: its writes are no clearing
  std::vector<at::Tensor> states = {};
  std::int64_t states_begin = 0;  ///< the element whose state is their first
  std::vector<std::size_t> slots = {};
  std::int64_t size = 0;
  std::uint32_t version = 0;  ///< of `gradients`, when last looked at
  bool some_stay = false;     ///< so it is with the gradient of some slot
  bool taken = false;         ///< somebody has had the flat gradients since they were cleared
};

/// Flat tensors in the buffers, which are made when they are first needed: a strategy that keeps a part of them comes
/// first. Kept whole, the slots have slices of them.
class ArenaStates {
 public:
  using Slots = std::vector<ArenaSlot>;
  using Buffers = std::vector<ArenaBuffer>;

  /// `count`: how many tensors the optimizer keeps of each parameter.
  explicit ArenaStates(std::size_t count) : count_(count) {}

  std::size_t count() const { return count_; }
  /// The first value of each state of a group, nullopt for a state that is not kept.
  void begin_with(std::size_t group, std::vector<std::optional<double>> const& initial) {
    if (initial_.size() <= group) initial_.resize(group + 1);
    initial_[group] = initial;
  }
  bool keeps(std::size_t group, std::size_t state) const { return initial_[group][state].has_value(); }

  ArenaPart const& part() const { return part_; }
  void set_part(ArenaPart part) { part_ = std::move(part); }
  /// Whether all of them are at hand, in the slots.
  bool are_whole() const { return part_.is_whole() || gathered_; }
  /// How many numbers this process keeps.
  std::int64_t numbers(Buffers const& buffers) const {
    std::int64_t sum = 0;
    for (auto const& buffer : buffers)
      for (std::size_t s = 0; s != count_; ++s)
        if (any_keeps(s)) sum += part_.length(buffer.size);
    return sum;
  }

  void make(Slots& slots, Buffers& buffers) {
    if (std::exchange(made_, true)) [[likely]]
      return;
    lay(slots, buffers);
  }
  /// Into buffers that were made anew: what the slots have, else the first values.
  void move_in(Slots& slots, Buffers& buffers) {
    if (made_) lay(slots, buffers);
  }

  /// Of states in parts, all of them in the slots until `drop_gathered`. A process that says `keeps_all` = false takes
  /// part, so that others may have them, and keeps its own part alone. A collective.
  void gather(Slots& slots, Buffers const& buffers, bool keeps_all) {
    if (!made_ || are_whole()) return;
    for (auto const& buffer : buffers)
      for (std::size_t s = 0; s != count_; ++s) {
        if (!buffer.states[s].defined()) continue;
        auto const whole = at::empty({buffer.size}, buffer.states[s].options());
        whole.narrow(0, buffer.states_begin, buffer.states[s].numel()).copy_(buffer.states[s]);
        part_.gather(whole);
        for (auto const i : buffer.slots)
          if (keeps_all && keeps(slots[i].group, s))
            slots[i].states[s] = slice(whole, slots[i].begin, slots[i].gradient);
      }
    gathered_ = keeps_all;
  }
  /// The same where a step was made, as it was by all processes or by none: before the first one there is nothing to
  /// move, and one process alone may have looked at its part.
  void gather_moved(Slots& slots, Buffers const& buffers) {
    bool const any = std::any_of(slots.begin(), slots.end(), [](ArenaSlot const& slot) { return slot.steps != 0; });
    if (any) gather(slots, buffers, true);
  }
  void drop_gathered(Slots& slots) {
    if (!std::exchange(gathered_, false)) return;
    for (auto& slot : slots) slot.states.assign(count_, at::Tensor());
  }

  /// What of a parameter lies in the part of this process; nullopt where that is nothing.
  std::optional<Overlap> own(ArenaSlot const& slot, ArenaBuffer const& buffer) const {
    Overlap const own(part_, buffer.size, slot.begin, slot.parameter.numel());
    return own.length == 0 ? std::nullopt : std::optional(own);
  }
  /// Of a whole state of a parameter, that part.
  void put_own(ArenaSlot const& slot, ArenaBuffer const& buffer, std::size_t state, at::Tensor const& whole) const {
    if (auto const here = own(slot, buffer))
      buffer.states[state]
          .narrow(0, here->in_part, here->length)
          .copy_(in_memory_order(whole, slot.gradient).narrow(0, here->in_slice, here->length));
  }

 private:
  bool any_keeps(std::size_t state) const {
    return std::any_of(initial_.begin(), initial_.end(), [&](auto const& group) { return group[state].has_value(); });
  }

  void lay(Slots& slots, Buffers& buffers) {
    for (auto& buffer : buffers) {
      buffer.states_begin = part_.begin(buffer.size);
      for (std::size_t s = 0; s != count_; ++s)
        if (any_keeps(s)) buffer.states[s] = at::zeros({part_.length(buffer.size)}, buffer.parameters.options());
    }
    for (auto& slot : slots)
      for (std::size_t s = 0; s != count_; ++s) {
        auto const before = std::exchange(slot.states[s], at::Tensor());
        if (auto const& initial = initial_[slot.group][s]) lay(slot, buffers[slot.buffer], s, before, *initial);
      }
    gathered_ = false;
  }
  void lay(ArenaSlot& slot, ArenaBuffer const& buffer, std::size_t state, at::Tensor const& before, double initial) {
    if (part_.is_whole()) {
      slot.states[state] = slice(buffer.states[state], slot.begin, slot.parameter);
      if (before.defined()) slot.states[state].copy_(before);
      else slot.states[state].fill_(initial);
    } else if (before.defined()) {
      put_own(slot, buffer, state, before);
    } else if (auto const here = own(slot, buffer)) {
      buffer.states[state].narrow(0, here->in_part, here->length).fill_(initial);
    }
  }

  std::size_t count_;
  std::vector<std::vector<std::optional<double>>> initial_ = {};  ///< by group
  ArenaPart part_ = {};
  bool made_ = false;
  bool gathered_ = false;  ///< of states in parts: the slots have all of them
};

}  // namespace fulgurite::libtorch
