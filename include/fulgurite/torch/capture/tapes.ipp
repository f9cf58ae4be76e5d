#pragma once
// The bodies of torch/capture/tapes.hpp.

#include <cstring>
#include <mutex>

#include <fulgurite/torch/capture/tapes.hpp>
#include <fulgurite/torch/device/rng.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY at::Tensor Copies::take(Tape const& tape, std::size_t number) {
  auto const& from = tape.leaving()[number];
  if (last_.size() <= number) last_.resize(number + 1);
  auto& copy = last_[number];
  if (!copy.defined() || copy.use_count() != 1 || copy.storage().use_count() != 1 || !is_as_it_was(copy, from)) {
    at::AutoDispatchBelowADInplaceOrView const below;
    copy = from.clone();
  } else if (from.is_contiguous()) {
    std::memcpy(copy.data_ptr(), from.const_data_ptr(), from.nbytes());
  } else {
    at::AutoDispatchBelowADInplaceOrView const below;
    copy.copy_(from);
  }
  return copy;
}

FULGURITE_BULK_BODY bool Copies::is_as_it_was(at::Tensor const& copy, at::Tensor const& from) {
  return copy.scalar_type() == from.scalar_type() && copy.sizes() == from.sizes() &&
         (!from.is_contiguous() || copy.is_contiguous()) && copy.unsafeGetTensorImpl()->autograd_meta() == nullptr;
}

FULGURITE_BULK_BODY Generators::Generators(Tape const& tape, bool draws) {
  if (!draws) return;
  add(cpu_generator());
  tape.each_generator([&](at::Generator const& generator) { add(generator); });
  states_ = now();
}

FULGURITE_BULK_BODY std::vector<at::Tensor> Generators::now() const {
  std::vector<at::Tensor> states;
  for (auto generator : all_) {
    std::lock_guard const lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

FULGURITE_BULK_BODY void Generators::restore() const {
  for (std::size_t i = 0; i != all_.size(); ++i) {
    auto generator = all_[i];
    std::lock_guard const lock(generator.mutex());
    generator.set_state(states_[i]);
  }
}

FULGURITE_BULK_BODY void Generators::add(at::Generator const& generator) {
  if (std::find(all_.begin(), all_.end(), generator) == all_.end()) all_.push_back(generator);
}

FULGURITE_BULK_BODY Before::Before(World const& world, Tape const& tape, bool draws)
    : world_(world), generators_(tape, draws), bytes_(world.bytes()) {}

FULGURITE_BULK_BODY void Before::restore() const {
  world_.restore(bytes_);
  generators_.restore();
}

FULGURITE_BULK_BODY std::vector<char> bytes_of(std::vector<at::Tensor> const& tensors) {
  at::AutoDispatchBelowADInplaceOrView const below;
  std::vector<char> all;
  for (auto const& tensor : tensors) {
    auto const whole = tensor.contiguous();
    auto const* from = static_cast<char const*>(whole.const_data_ptr());
    if (whole.nbytes() != 0) all.insert(all.end(), from, from + whole.nbytes());
  }
  return all;
}

FULGURITE_BULK_BODY std::string difference(std::vector<std::string> const& a, std::vector<std::string> const& b) {
  std::size_t const n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i != n; ++i)
    if (a[i] != b[i])
      return "the step is not the same each time: " + a[i].substr(0, a[i].find(' ')) +
             " is called with other numbers, shapes or tensors, or is another operator (a number of the host that "
             "changes?)";
  return a.size() == b.size() ? ""
                              : "the step is not the same each time: it calls " + std::to_string(a.size()) +
                                    " operators or " + std::to_string(b.size());
}

FULGURITE_BULK_BODY Before Tapes::before(World const& world, Kept const& kept) {
  return {world, *kept.tape, kept.draws};
}

}  // namespace fulgurite::libtorch::capture
