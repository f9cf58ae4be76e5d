#pragma once
// The bodies of torch/optim/arena_layout.hpp.

#include <algorithm>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/optim/arena_layout.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY std::int64_t ArenaPart::padded(std::int64_t size, at::Tensor const& like) const {
  return is_whole() ? size : of * aligned((size + of - 1) / of, like);
}

FULGURITE_BULK_BODY std::int64_t ArenaPart::end(std::int64_t padded_size) const {
  return begin(padded_size) + length(padded_size);
}

/// The elements of `value` in the memory order of a slice with the shape and strides of `like`.
FULGURITE_BULK_BODY at::Tensor in_memory_order(at::Tensor const& value, at::Tensor const& like) {
  auto ordered = value;
  if (value.strides() != like.strides()) {
    ordered = at::empty_like(like);
    ordered.copy_(value);
  }
  return ordered.as_strided({ordered.numel()}, {1}, ordered.storage_offset());
}

FULGURITE_BULK_BODY at::Tensor const& ArenaSlot::held() const { return parameter.unsafeGetTensorImpl()->grad(); }

FULGURITE_BULK_BODY bool ArenaLayout::keeps(std::size_t group, std::size_t state) const {
  return initial_[group][state].has_value();
}

FULGURITE_BULK_BODY bool ArenaLayout::any_keeps(std::size_t state) const {
  return std::any_of(initial_.begin(), initial_.end(), [&](auto const& group) { return group[state].has_value(); });
}

FULGURITE_BULK_BODY void ArenaLayout::make_states() {
  if (std::exchange(made_, true)) [[likely]]
    return;
  Mode const mode;
  lay_states();
}

FULGURITE_BULK_BODY std::int64_t ArenaLayout::kept_numbers() const {
  std::int64_t sum = 0;
  for (auto const& buffer : buffers_)
    for (std::size_t s = 0; s != states_; ++s)
      if (any_keeps(s)) sum += part_.length(buffer.size);
  return sum;
}

FULGURITE_BULK_BODY void ArenaLayout::keep_part(ArenaPart part) {
  leave_gradients(false);
  Mode const mode;
  gather_moved();
  part_ = std::move(part);
  lay_out();
}

FULGURITE_BULK_BODY void ArenaLayout::gather_states(bool keeps_all) {
  make_states();
  Mode const mode;
  put_right();
  gather(keeps_all);
}

FULGURITE_BULK_BODY void ArenaLayout::gather_moved() {
  bool const any = std::any_of(slots_.begin(), slots_.end(), [](Slot const& slot) { return slot.steps != 0; });
  if (any) gather(true);
}

FULGURITE_BULK_BODY void ArenaLayout::gather(bool keeps_all) {
  if (!made_ || has_whole_states()) return;
  for (auto const& buffer : buffers_)
    for (std::size_t s = 0; s != states_; ++s) {
      if (!buffer.states[s].defined()) continue;
      auto const whole = at::empty({buffer.size}, buffer.states[s].options());
      whole.narrow(0, buffer.states_begin, buffer.states[s].numel()).copy_(buffer.states[s]);
      part_.gather(whole);
      for (auto const i : buffer.slots)
        if (keeps_all && keeps(slots_[i].group, s))
          slots_[i].states[s] = slice(whole, slots_[i].begin, slots_[i].gradient);
    }
  gathered_ = keeps_all;
}

FULGURITE_BULK_BODY void ArenaLayout::drop_gathered() {
  if (!std::exchange(gathered_, false)) return;
  for (auto& slot : slots_) slot.states.assign(states_, at::Tensor());
}

FULGURITE_BULK_BODY std::optional<Overlap> ArenaLayout::own(Slot const& slot) const {
  auto const size = buffers_[slot.buffer].size, begin = part_.begin(size);
  auto const from = std::max(slot.begin, begin), to = std::min(slot.begin + slot.parameter.numel(), part_.end(size));
  return to <= from ? std::nullopt : std::optional(Overlap{from - slot.begin, from - begin, to - from});
}

FULGURITE_BULK_BODY void ArenaLayout::put_own(Slot const& slot, std::size_t state, at::Tensor const& whole) const {
  if (auto const here = own(slot))
    buffers_[slot.buffer]
        .states[state]
        .narrow(0, here->in_part, here->length)
        .copy_(in_memory_order(whole, slot.gradient).narrow(0, here->in_slice, here->length));
}

FULGURITE_BULK_BODY void ArenaLayout::lay_states() {
  for (auto& buffer : buffers_) {
    buffer.states_begin = part_.begin(buffer.size);
    for (std::size_t s = 0; s != states_; ++s)
      if (any_keeps(s)) buffer.states[s] = at::zeros({part_.length(buffer.size)}, buffer.parameters.options());
  }
  for (auto& slot : slots_)
    for (std::size_t s = 0; s != states_; ++s) {
      auto const before = std::exchange(slot.states[s], at::Tensor());
      if (auto const& initial = initial_[slot.group][s]) lay_state(slot, s, before, *initial);
    }
  gathered_ = false;
}

FULGURITE_BULK_BODY void ArenaLayout::lay_state(Slot& slot, std::size_t state, at::Tensor const& before,
                                                double initial) {
  auto const& flat = buffers_[slot.buffer].states[state];
  if (part_.is_whole()) {
    slot.states[state] = slice(flat, slot.begin, slot.parameter);
    if (before.defined()) slot.states[state].copy_(before);
    else slot.states[state].fill_(initial);
  } else if (before.defined()) {
    put_own(slot, state, before);
  } else if (auto const here = own(slot)) {
    flat.narrow(0, here->in_part, here->length).fill_(initial);
  }
}

FULGURITE_BULK_BODY ArenaLayout::~ArenaLayout() = default;

FULGURITE_BULK_BODY void ArenaLayout::add(std::vector<at::Tensor> const& parameters, std::size_t group,
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
    slots_.push_back({.parameter = parameter, .group = group, .states = std::vector<at::Tensor>(states_)});
  if (initial_.size() <= group) initial_.resize(group + 1);
  initial_[group] = initial;
  rebuild();
}

FULGURITE_BULK_BODY void ArenaLayout::leave_gradients(bool leave) {
  Mode const mode;
  put_right();
  if (!leave) gather_into_buffers();
  leaves_ = leave;
  choose_staying();
}

FULGURITE_BULK_BODY ArenaLayout::Mode::Mode() {
  if (c10::InferenceMode::is_enabled()) off.emplace(false);
  no_graph.emplace();
}

FULGURITE_BULK_BODY bool ArenaLayout::fits(Slot const& slot) const {
  auto const& flat = buffers_[slot.buffer].parameters;
  return slot.parameter.scalar_type() == flat.scalar_type() && slot.parameter.device() == flat.device();
}

FULGURITE_BULK_BODY void ArenaLayout::put_right() {
  for (auto& slot : slots_) {
    auto const& flat = buffers_[slot.buffer].parameters;
    auto const* here =
        static_cast<char const*>(flat.const_data_ptr()) + slot.begin * static_cast<std::int64_t>(flat.element_size());
    if (!fits(slot)) return rebuild();
    if (slot.parameter.numel() != 0 && slot.parameter.const_data_ptr() != here) take_data(slot);
    if (auto const& gradient = slot.held();
        gradient.defined() && !gradient.is_same(slot.gradient) && !is_elsewhere(slot))
      take_gradient(slot);
  }
}

FULGURITE_BULK_BODY bool ArenaLayout::is_elsewhere(Slot const& slot) {
  if (!slot.stays) return false;
  auto const &gradient = slot.held(), &like = slot.gradient;
  return gradient.defined() && !gradient.is_same(like) && gradient.layout() == at::kStrided && gradient.is_cpu() &&
         gradient.scalar_type() == like.scalar_type() && gradient.sizes() == like.sizes() &&
         gradient.strides() == like.strides();
}

FULGURITE_BULK_BODY void ArenaLayout::gather_into_buffers() {
  for (auto& slot : slots_)
    if (is_elsewhere(slot)) take_gradient(slot);
}

FULGURITE_BULK_BODY void ArenaLayout::choose_staying() {
  for (auto& buffer : buffers_) buffer.some_stay = false;
  for (auto& slot : slots_) {
    auto const bytes = slot.parameter.nbytes();
    auto const type = slot.parameter.scalar_type();
    slot.stays = leaves_ && bytes >= least_to_stay && bytes % 64 == 0 && slot.parameter.is_cpu() &&
                 (type == at::kFloat || type == at::kDouble) && slot.gradient.is_non_overlapping_and_dense();
    if (!slot.stays) continue;
    buffers_[slot.buffer].some_stay = true;
    slot.cleared = version_of(slot.gradient) - 1;
  }
}

FULGURITE_BULK_BODY void ArenaLayout::clear_unused(Slot& slot) {
  if (version_of(slot.gradient) == slot.cleared) return;
  slot.gradient.zero_();
  slot.cleared = version_of(slot.gradient);
  give_back(slot.gradient.mutable_data_ptr(), slot.gradient.nbytes());
}

FULGURITE_BULK_BODY void ArenaLayout::require_shape(Slot const& slot) {
  if (!slot.gradient.defined() || slot.parameter.sizes() == slot.gradient.sizes()) return;
  throw Error("fulgurite.optim.parameter_changed", "the shape of a parameter has changed since its optimizer was made: "
                                                   "make a new optimizer after changing the model");
}

FULGURITE_BULK_BODY void ArenaLayout::take_data(Slot& slot) {
  require_shape(slot);
  auto const gradient = slot.parameter.grad();
  if (gradient.defined()) slot.parameter.mutable_grad().reset();  // LibTorch would compare the new data with it
  auto part = slice(buffers_[slot.buffer].parameters, slot.begin, slot.gradient);
  part.copy_(slot.parameter.detach());
  slot.parameter.set_data(part);
  if (gradient.defined()) slot.parameter.mutable_grad() = gradient;
}

FULGURITE_BULK_BODY void ArenaLayout::take_gradient(Slot& slot) {
  auto const& gradient = slot.parameter.grad();
  slot.gradient.copy_(gradient.is_sparse() ? gradient.to_dense()
                                           : gradient.detach());  // so that this write marks it as received
  if (slot.stays) slot.gradient.add_(0);                          // same bits as adding to a cleared slice
  slot.parameter.mutable_grad() = slot.gradient;
}

FULGURITE_BULK_BODY void ArenaLayout::rebuild() {
  gather_moved();
  lay_out();
}

FULGURITE_BULK_BODY void ArenaLayout::lay_out() {
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
                          .states = std::vector<at::Tensor>(states_)});
    auto& buffer = buffers_[slot.buffer];
    buffer.slots.push_back(i);
    slot.begin = buffer.size;
    buffer.size += aligned(slot.parameter.numel(), buffer.parameters);
  }
  for (auto& buffer : buffers_) {
    auto const options = buffer.parameters.options();
    buffer.size = part_.padded(buffer.size, buffer.parameters);
    buffer.parameters = at::zeros({buffer.size}, options);
    buffer.gradients = at::zeros({buffer.size}, options);
    buffer.gradients_too = slice(buffer.gradients, 0, buffer.gradients);
    buffer.version = version_of(buffer.gradients);
  }
  for (auto& slot : slots_) move_in(slot, buffers_[slot.buffer]);
  if (made_) lay_states();
  choose_staying();
}

FULGURITE_BULK_BODY void ArenaLayout::move_in(Slot& slot, Buffer const& buffer) {
  auto const old = std::exchange(slot.gradient, slice(buffer.gradients, slot.begin, slot.parameter));
  bool const had =
      slot.parameter.grad().defined() &&
      (slot.received || !old.defined() || !slot.parameter.grad().is_same(old) || version_of(old) != slot.version);
  take_data(slot);
  slot.version = version_of(slot.gradient);
  slot.received = had;
  if (had) take_gradient(slot);
  else if (slot.parameter.requires_grad() || slot.parameter.grad().defined())  // a frozen one may hold its old slice
    slot.parameter.mutable_grad() = slot.gradient;
}

}  // namespace fulgurite::libtorch
