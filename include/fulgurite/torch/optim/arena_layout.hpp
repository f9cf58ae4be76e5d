#pragma once
// Where the parameters of an arena and their gradients lie, and how they come back there.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/optim/arena_slices.hpp>
#include <fulgurite/torch/optim/arena_states.hpp>

namespace fulgurite::libtorch {

/// Buffers by the types and devices of the parameters, which become slices of them, as do their gradients.
///
/// Whatever the user has done to a parameter (another gradient, set_data, to(device)) is put right when the arena is
/// used next: the tensor is copied into the buffer if it fits; else all buffers are made anew, and the state of the
/// optimizer moves along.
class ArenaLayout {
 public:
  using Slot = ArenaSlot;
  using Buffer = ArenaBuffer;

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

  ArenaStates const& states() const { return states_; }
  std::vector<at::Tensor> const& parameters() const { return parameters_; }
  std::vector<Slot> const& slots() const { return slots_; }
  std::vector<Slot>& slots() { return slots_; }
  std::vector<Buffer> const& buffers() const { return buffers_; }

  /// Whether large gradients on the CPU may stay where backward makes them, to be read there by the update. Else
  /// backward adds them to their slices, which were cleared before: two more passes over memory. Their slices have no
  /// memory while they are not used.
  void leave_gradients(bool leave) {
    Mode const mode;
    put_right();
    if (!leave) bring_home();
    leaves_ = leave;
    choose_staying();
  }

 protected:
  /// `states`: how many tensors the optimizer keeps of each parameter.
  explicit ArenaLayout(std::size_t states) : states_(states) {}

  /// Validation may run in inference mode, whose tensors could not be trained on.
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
      if (auto const& gradient = slot.parameter.grad();
          gradient.defined() && !gradient.is_same(slot.gradient) && !is_elsewhere(slot))
        take_gradient(slot);
    }
  }

  /// The slot has a gradient that stays where it was made.
  static bool is_elsewhere(Slot const& slot) {
    if (!slot.stays) return false;
    auto const &gradient = slot.parameter.grad(), &like = slot.gradient;
    return gradient.defined() && !gradient.is_same(like) && gradient.layout() == at::kStrided && gradient.is_cpu() &&
           gradient.scalar_type() == like.scalar_type() && gradient.sizes() == like.sizes() &&
           gradient.strides() == like.strides();
  }
  /// Who takes gradients as a whole finds all of them in the buffers.
  void bring_home() {
    for (auto& slot : slots_)
      if (is_elsewhere(slot)) take_gradient(slot);
  }
  /// Only slices without a gap behind them, since an update goes on to the end of a cache line.
  void choose_staying() {
    for (auto& buffer : buffers_) buffer.some_stay = false;
    for (auto& slot : slots_) {
      auto const bytes = slot.parameter.nbytes();
      auto const type = slot.parameter.scalar_type();
      slot.stays = leaves_ && bytes >= least_to_stay && bytes % 64 == 0 && slot.parameter.is_cpu() &&
                   (type == at::kFloat || type == at::kDouble) && slot.gradient.is_non_overlapping_and_dense();
      if (!slot.stays) continue;
      buffers_[slot.buffer].some_stay = true;
      slot.cleared = version(slot.gradient) - 1;
    }
  }
  /// Clears the slice of a gradient that will be made elsewhere, and leaves its memory to the system meanwhile.
  static void clear_unused(Slot& slot) {
    if (version(slot.gradient) == slot.cleared) return;
    slot.gradient.zero_();
    slot.cleared = version(slot.gradient);
    give_back(slot.gradient.mutable_data_ptr(), slot.gradient.nbytes());
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
    if (slot.stays) slot.gradient.add_(0);  // as if it had been added to a slice that was cleared
    slot.parameter.mutable_grad() = slot.gradient;
  }

  /// Makes new buffers for all parameters, by their present types and devices; values, gradients and states move over.
  void rebuild() {
    states_.gather_moved(slots_, buffers_);
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
    choose_staying();
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
  bool leaves_ = false;

 private:
  /// A smaller gradient stays in the cache, where a pass costs next to nothing.
  static constexpr std::size_t least_to_stay = std::size_t{1} << 16;
};

}  // namespace fulgurite::libtorch
