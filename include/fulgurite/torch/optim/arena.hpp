#pragma once
// Parameters, gradients and optimizer state in a few flat buffers, so that clearing, clipping and the update are passes
// over memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <fulgurite/core/error.hpp>
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
///
/// Whatever the user has done to a parameter (another gradient, set_data, to(device)) is put right in the next
/// `zero_grad` or `update`: the tensor is copied into the buffer if it fits; else all buffers are made anew, and the
/// state of the optimizer moves along.
class Arena {
 public:
  using Slot = ArenaSlot;
  using Buffer = ArenaBuffer;
  /// A stretch of neighbours in a buffer, all of which take the same step.
  struct Run {
    std::size_t group, buffer;
    std::int64_t begin, end;
    long steps;  ///< that these parameters have taken before
  };

  /// `states`: how many tensors the optimizer keeps of each parameter.
  explicit Arena(std::size_t states) : states_(states) {}

  /// Adds the parameters of one group. `initial`: the first value of each state, nullopt for a state that is not kept.
  void add(std::vector<at::Tensor> const& parameters, std::size_t group,
           std::vector<std::optional<double>> const& initial) {
    Mode const mode;
    std::vector<at::Tensor> all(parameters_);
    all.insert(all.end(), parameters.begin(), parameters.end());
    for (auto const& parameter : parameters)
      if (!parameter.defined() || !parameter.is_leaf() || parameter.layout() != at::kStrided)
        throw Error("fulgurite.optim.parameter",
                    "an optimizer was given a tensor that is undefined, sparse or computed from others: it "
                    "updates parameters, as module->parameters() has them");
    require_apart(all);
    parameters_ = std::move(all);
    for (auto const& parameter : parameters)
      slots_.push_back({.parameter = parameter, .group = group, .states = std::vector<at::Tensor>(states_.count())});
    states_.begin_with(group, initial);
    rebuild();
  }

  /// Sets the gradients to zero; they count as not received.
  void zero_grad() {
    Mode const mode;
    put_right();
    for (auto& buffer : buffers_) {
      buffer.gradients.zero_();
      buffer.version = buffer.gradients.unsafeGetTensorImpl()->version_counter().current_version();
    }
    for (auto& slot : slots_) {
      slot.received = false;
      slot.version = version(slot.gradient);
      if (slot.parameter.requires_grad() && !slot.parameter.grad().defined())
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
      } else if (now != slot.version) {
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
        if (run.steps != slot.steps || run.group != slot.group) {
          flush();
          run = {slot.group, b, slot.begin, 0, slot.steps};
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
    Mode const mode;
    put_right();
    states_.gather(slots_, buffers_, true);
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
  ArenaStates const& states() const { return states_; }

  /// f(flat gradients) for each buffer in which some gradient was received.
  template <class F>
  void each_gradient(F&& f) {
    look();
    for (auto const& buffer : buffers_)
      for (auto const i : buffer.slots)
        if (slots_[i].received) {
          f(buffer.gradients_too);
          break;
        }
  }

  /// Whether f(flat gradients) holds for each buffer. Gradients that were not received are included; they are zero.
  /// This is asked in every step, so single parameters are looked at only if some gradient does not lie in its place.
  template <class F>
  bool all_gradients(F&& f) {
    for (auto const& slot : slots_)
      if (!slot.parameter.grad().is_same(slot.gradient)) {
        look();
        break;
      }
    for (auto const& buffer : buffers_)
      if (!f(buffer.gradients)) return false;
    return true;
  }

  /// f(gradient) for each parameter that has received one, in the order of the parameters.
  template <class F>
  void each_received(F&& f) const {
    for (auto const& slot : slots_)
      if (slot.received) f(slot.gradient);
  }

  std::vector<at::Tensor> const& parameters() const { return parameters_; }
  std::vector<Slot> const& slots() const { return slots_; }
  std::vector<Slot>& slots() { return slots_; }
  std::vector<Buffer> const& buffers() const { return buffers_; }

 private:
  // Validation may run in inference mode, whose tensors could not be trained on.
  struct Mode {
    c10::InferenceMode off{false};
    at::NoGradGuard no_graph{};
  };

  static std::uint32_t version(at::Tensor const& tensor) {
    return tensor.unsafeGetTensorImpl()->version_counter().current_version();
  }

  bool fits(Slot const& slot) const {
    auto const& flat = buffers_[slot.buffer].parameters;
    return slot.parameter.scalar_type() == flat.scalar_type() && slot.parameter.device() == flat.device();
  }

  void put_right() {
    for (auto& slot : slots_) {
      auto const& flat = buffers_[slot.buffer].parameters;
      auto const* here =
          static_cast<char const*>(flat.const_data_ptr()) + slot.begin * static_cast<std::int64_t>(flat.element_size());
      if (!fits(slot)) return rebuild();
      if (slot.parameter.numel() != 0 && slot.parameter.const_data_ptr() != here) take_data(slot);
      if (auto const& gradient = slot.parameter.grad(); gradient.defined() && !gradient.is_same(slot.gradient))
        take_gradient(slot);
    }
  }

  static void require_shape(Slot const& slot) {
    if (!slot.gradient.defined() || slot.parameter.sizes() == slot.gradient.sizes()) return;
    throw Error("fulgurite.optim.parameter_changed", "a parameter has another shape than when its optimizer was made: "
                                                     "make the optimizer anew after changing the model");
  }

  /// Copies the parameter's values into its slice, and makes the parameter that slice.
  void take_data(Slot& slot) {
    require_shape(slot);
    auto const gradient = slot.parameter.grad();
    if (gradient.defined()) slot.parameter.mutable_grad().reset();  // LibTorch would compare the slice with it
    auto part = slice(buffers_[slot.buffer].parameters, slot.begin, slot.gradient);
    part.copy_(slot.parameter.detach());
    slot.parameter.set_data(part);
    if (gradient.defined()) slot.parameter.mutable_grad() = gradient;
  }

  /// Takes over a gradient that backward or the user has made elsewhere.
  void take_gradient(Slot& slot) {
    auto const& gradient = slot.parameter.grad();
    slot.gradient.copy_(gradient.is_sparse() ? gradient.to_dense()
                                             : gradient.detach());  // a write: it counts as received
    slot.parameter.mutable_grad() = slot.gradient;
  }

  /// Makes new buffers for all parameters, by their present types and devices; values, gradients and states move over.
  void rebuild() {
    states_.gather(slots_, buffers_, true);
    lay_out();
  }
  void lay_out() {
    for (auto const& slot : slots_) require_shape(slot);
    buffers_.clear();
    for (std::size_t i = 0; i != slots_.size(); ++i) {
      auto& slot = slots_[i];
      slot.buffer = 0;
      while (slot.buffer != buffers_.size() &&
             !(buffers_[slot.buffer].parameters.scalar_type() == slot.parameter.scalar_type() &&
               buffers_[slot.buffer].parameters.device() == slot.parameter.device()))
        ++slot.buffer;
      if (slot.buffer == buffers_.size())
        buffers_.push_back({.parameters = at::empty({0}, slot.parameter.options().requires_grad(false)),
                            .states = std::vector<at::Tensor>(states_.count())});
      auto& buffer = buffers_[slot.buffer];
      buffer.slots.push_back(i);
      slot.begin = buffer.size;
      buffer.size += aligned(slot.parameter.numel(), buffer.parameters);
    }
    for (auto& buffer : buffers_) {
      auto const options = buffer.parameters.options();
      buffer.size = states_.part().padded(buffer.size, buffer.parameters);
      buffer.parameters = at::zeros({buffer.size}, options);
      buffer.gradients = at::zeros({buffer.size}, options);
      buffer.gradients_too = slice(buffer.gradients, 0, buffer.gradients);
      buffer.version = version(buffer.gradients);
    }
    for (auto& slot : slots_) move_in(slot, buffers_[slot.buffer]);
    states_.move_in(slots_, buffers_);
  }

  void move_in(Slot& slot, Buffer const& buffer) {
    auto const old = std::exchange(slot.gradient, slice(buffer.gradients, slot.begin, slot.parameter));
    bool const had =
        slot.parameter.grad().defined() &&
        (slot.received || !old.defined() || !slot.parameter.grad().is_same(old) || version(old) != slot.version);
    take_data(slot);
    slot.version = version(slot.gradient);
    slot.received = had;
    if (had) take_gradient(slot);
    else if (slot.parameter.requires_grad()) slot.parameter.mutable_grad() = slot.gradient;
  }

  ArenaStates states_;
  std::vector<at::Tensor> parameters_;
  std::vector<Slot> slots_;
  std::vector<Buffer> buffers_;
};

/// The parameters of an arena as a range that knows their gradients as a whole, which is what clipping takes.
class ArenaParameters : public std::span<at::Tensor const> {
 public:
  explicit ArenaParameters(Arena& arena) : std::span<at::Tensor const>(arena.parameters()), arena_(&arena) {
    arena.look();
  }

  template <class F>
  void each_gradient(F&& f) const {
    arena_->each_gradient(f);
  }
  /// The same for each gradient by itself, as the norm of their norms needs it.
  template <class F>
  void each_received(F&& f) const {
    arena_->each_received(f);
  }
  /// Whether the parameter at this position had a gradient when this range was asked for.
  bool has_gradient(std::size_t position) const { return arena_->slots()[position].received; }
  /// For a strategy that exchanges the gradients with other processes.
  Arena& arena() const { return *arena_; }
  bool no_gradients() const {
    bool none = true;
    arena_->each_gradient([&](auto const&) { none = false; });
    return none;
  }

 private:
  Arena* arena_;
};

}  // namespace fulgurite::libtorch
