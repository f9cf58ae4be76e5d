#pragma once
// Parameters, gradients and optimizer state in a few flat buffers, so that clearing, clipping and the update are passes
// over memory. Where they lie is in arena_layout.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/torch/optim/arena_layout.hpp>
#include <fulgurite/torch/optim/arena_part.hpp>
#include <fulgurite/torch/optim/arena_slices.hpp>
#include <fulgurite/torch/optim/arena_states.hpp>

namespace fulgurite::libtorch {

/// Owns one set of buffers for each element type and device. The parameters that it is given keep their identity and
/// become slices of these; their gradients are slices, too, which are set before backward and stay, so that backward
/// adds to them.
///
/// LibTorch says by an undefined gradient that backward has not reached a parameter. Here version counters tell it: a
/// gradient counts as received from the first write to it after the last clearing. Writing to p.grad() in place is such
/// a write; p.grad().reset() takes it back. A strategy that replays recorded operators moves the counters of the
/// gradients that it writes, and of the flat tensor that it clears (Buffer::gradients), as the operators themselves
/// would. Where it moves none, what the recorded step has reached counts.
class Arena : public ArenaLayout {
 public:
  /// A stretch of neighbours in a buffer, all of which take the same step.
  struct Run {
    std::size_t group, buffer;
    std::int64_t begin, end;
    long steps;                            ///< that these parameters have taken before
    at::Tensor const* gradient = nullptr;  ///< of the one parameter in it, where that is not in the buffer
  };

  /// `states`: how many tensors the optimizer keeps of each parameter.
  explicit Arena(std::size_t states) : ArenaLayout(states) {}

  /// Sets the gradients to zero; they count as not received.
  void zero_grad() {
    Mode const mode;
    put_right();
    for (auto& buffer : buffers_) {
      if (buffer.some_stay && !buffer.taken) clear_each(buffer);
      else clear_all(buffer);
      buffer.version = buffer.gradients.unsafeGetTensorImpl()->version_counter().current_version();
    }
    for (auto& slot : slots_) {
      slot.received = false;
      slot.version = version(slot.gradient);
      if (slot.stays) slot.parameter.mutable_grad().reset();
      else if (slot.parameter.requires_grad() && !slot.parameter.grad().defined())
        slot.parameter.mutable_grad() = slot.gradient;
    }
  }

  /// Puts everything in its place, and finds out which gradients were received. The slice of one that was not is zero.
  void look() {
    Mode const mode;
    put_right();
    for (auto& buffer : buffers_) {
      auto const now = version(buffer.gradients);
      if (now == buffer.version) continue;  // only a replay clears without calling zero_grad()
      buffer.version = now;
      for (auto const i : buffer.slots) slots_[i].received = false;
    }
    for (auto& slot : slots_) {
      auto const now = version(slot.gradient);
      if (!slot.parameter.grad().defined()) {
        if (slot.received || now != slot.version) slot.gradient.zero_();
        slot.received = false;
        slot.version = version(slot.gradient);
      } else if (now != slot.version || is_elsewhere(slot)) {
        slot.received = true;
        slot.version = now;
      }
    }
  }

  /// Which gradients count as received, in the order of the slots. `set_received` puts this back after writes that were
  /// undone.
  std::vector<bool> received() {
    look();
    std::vector<bool> all;
    for (auto const& slot : slots_) all.push_back(slot.received);
    return all;
  }
  void set_received(std::vector<bool> const& all) {
    for (auto& buffer : buffers_) buffer.version = version(buffer.gradients);
    for (std::size_t i = 0; i != slots_.size(); ++i) {
      slots_[i].received = all[i];
      slots_[i].version = version(slots_[i].gradient);
    }
  }

  /// f(run, buffer) for each stretch of parameters that have a gradient. They count as having taken one step more. Of
  /// an arena in parts this process updates its own, and receives the others.
  template <class F>
  void update(F&& f) {
    Mode const mode;
    look();
    states_.make(slots_, buffers_);
    auto const& part = states_.part();
    for (std::size_t b = 0; b != buffers_.size(); ++b) {
      Run run{0, b, 0, 0, -1};
      bool any = false;
      auto const flush = [&] {
        if (run.steps < 0) return;
        any = true;
        run.begin = std::max(run.begin, part.begin(buffers_[b].size));
        run.end = std::min(run.end, part.end(buffers_[b].size));
        if (run.begin < run.end) f(std::as_const(run), buffers_[b]);
        run.steps = -1;
      };
      for (auto const i : buffers_[b].slots) {
        auto& slot = slots_[i];
        if (!slot.received) {
          flush();
          continue;
        }
        bool const elsewhere = is_elsewhere(slot);
        if (run.steps != slot.steps || run.group != slot.group || elsewhere || run.gradient) {
          flush();
          run = {slot.group, b, slot.begin, 0, slot.steps, elsewhere ? &slot.parameter.grad() : nullptr};
        }
        run.end = slot.begin + aligned(slot.parameter.numel(), buffers_[b].parameters);
        ++slot.steps;
        slot.parameter.unsafeGetTensorImpl()->bump_version();  // autograd then notices a backward through the old value
      }
      flush();
      if (any && !part.is_whole()) part.gather(buffers_[b].parameters);
    }
  }

  /// From here on this process keeps one part of the states, and of the parameters updates that part. The other
  /// processes have the same arena and say the same at the same place; what is kept so far moves along.
  void keep_part(ArenaPart part) {
    leave_gradients(false);
    Mode const mode;
    states_.gather_moved(slots_, buffers_);
    states_.set_part(std::move(part));
    lay_out();
  }
  /// All of the states in the slots, until `drop_gathered`: see ArenaStates. A collective.
  void gather_states(bool keeps_all) {
    make_states();
    Mode const mode;
    put_right();
    states_.gather(slots_, buffers_, keeps_all);
  }
  void drop_gathered() { states_.drop_gathered(slots_); }
  void make_states() {
    Mode const mode;
    states_.make(slots_, buffers_);
  }

  /// f(flat gradients) for each buffer in which some gradient was received.
  template <class F>
  void each_gradient(F&& f) {
    gather_gradients();
    look();
    for (auto& buffer : buffers_) buffer.taken = true;
    for (auto const& buffer : buffers_)
      for (auto const i : buffer.slots)
        if (slots_[i].received) {
          f(buffer.gradients_too);
          break;
        }
  }

  /// Whether f(gradients) holds for each buffer, or of a buffer from which some stay away, for each of its gradients.
  /// Flat gradients that were not received are included; they are zero. This is asked in every step, so single
  /// parameters are looked at only if some gradient does not lie in its place.
  template <class F>
  bool all_gradients(F&& f) {
    for (auto const& slot : slots_)
      if (!slot.parameter.grad().is_same(slot.gradient)) {
        look();
        break;
      }
    for (auto const& buffer : buffers_)
      if (!(buffer.some_stay ? each_holds(buffer, f) : f(buffer.gradients))) return false;
    return true;
  }

  /// f(gradient) for each parameter that has received one, in the order of the parameters.
  template <class F>
  void each_received(F&& f) const {
    for (auto const& slot : slots_)
      if (slot.received) f(slot.gradient);
  }

 private:
  void gather_gradients() {
    Mode const mode;
    bring_home();
  }
  void clear_each(Buffer const& buffer) {
    for (auto const i : buffer.slots)
      if (slots_[i].stays) clear_unused(slots_[i]);
      else slots_[i].gradient.zero_();
  }
  void clear_all(Buffer& buffer) {
    buffer.gradients.zero_();
    buffer.taken = false;
    if (buffer.some_stay)
      for (auto const i : buffer.slots) slots_[i].cleared = version(slots_[i].gradient);
  }
  template <class F>
  bool each_holds(Buffer const& buffer, F& f) const {
    for (auto const i : buffer.slots)
      if (auto const& gradient = slots_[i].parameter.grad(); gradient.defined() && !f(gradient)) return false;
    return true;
  }
};

}  // namespace fulgurite::libtorch
