#pragma once
// Where the parameters of an arena and their gradients lie, and how they come back there.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

// Which part of an optimizer's state a process keeps, where several of them update the same parameters together.

/// Of each flat buffer, cut into as many equal parts as there are processes, this one updates the part with its number,
/// and keeps the state of that part alone. The default is one process, which keeps all.
struct ArenaPart {
  int mine = 0, of = 1;
  /// Of a flat tensor each process has its own part; afterwards all of them have all of it. A collective.
  std::function<void(at::Tensor const&)> gather = nullptr;

  bool is_whole() const { return of == 1; }
  /// How long a buffer is that can be cut: parts begin where slices may.
  std::int64_t padded(std::int64_t size, at::Tensor const& like) const {
    return is_whole() ? size : of * aligned((size + of - 1) / of, like);
  }
  std::int64_t length(std::int64_t padded_size) const { return padded_size / of; }
  std::int64_t begin(std::int64_t padded_size) const { return mine * length(padded_size); }
  std::int64_t end(std::int64_t padded_size) const { return begin(padded_size) + length(padded_size); }
};

/// What a part has of one slice: `length` elements from `in_slice` on, which lie from `in_part` on in it.
struct Overlap {
  std::int64_t in_slice = 0, in_part = 0, length = 0;

  Overlap(ArenaPart const& part, std::int64_t buffer_size, std::int64_t slice_begin, std::int64_t slice_size) {
    auto const from = std::max(slice_begin, part.begin(buffer_size));
    auto const to = std::min(slice_begin + slice_size, part.end(buffer_size));
    in_slice = from - slice_begin;
    in_part = from - part.begin(buffer_size);
    length = std::max<std::int64_t>(0, to - from);
  }
};

/// The numbers of `value` in the order in which a slice in the shape of `like` has them in memory.
inline at::Tensor in_memory_order(at::Tensor const& value, at::Tensor const& like) {
  auto ordered = value;
  if (value.strides() != like.strides()) {
    ordered = at::empty_like(like);
    ordered.copy_(value);
  }
  return ordered.as_strided({ordered.numel()}, {1}, ordered.storage_offset());
}

// What an optimizer keeps of the parameters of an arena: all of it, or the part of one process.

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
