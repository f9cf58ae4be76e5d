#pragma once
// The bodies of torch/capture/step_kind.hpp.

#include <algorithm>

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include <fulgurite/torch/capture/step_kind.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY void Pace::next_check(std::uint64_t& noise) {
  noise = noise * 6364136223846793005U + 1442695040888963407U;
  until_check_ = gap_ / 2 + static_cast<long>((noise >> 33U) % static_cast<std::uint64_t>(gap_));
}

FULGURITE_BULK_BODY void Pace::rarer_checks(long longest) { gap_ = std::min(2 * gap_, longest); }

FULGURITE_BULK_BODY std::string not_replayable(loop::Questions const& asked) {
  using loop::Question;
  std::string why;
  asked.each([&](Question question) {
    if (!why.empty() || question < Question::comparable) return;
    auto const call = "ctx." + std::string(loop::name_of(question)) + "()";
    if (question == Question::value || question == Question::optimizers || question == Question::seconds ||
        question == Question::rate || question == Question::outcome)
      why = "training_step reads " + call + ", which may differ each time";
    else why = "training_step calls " + call + ", which a replay would leave out";
  });
  return why;
}

FULGURITE_BULK_BODY at::Tensor memory_like(at::Tensor const& tensor) {
  auto const options = tensor.options().requires_grad(false);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) return at::empty(tensor.sizes(), options);
  auto const item = static_cast<std::int64_t>(tensor.itemsize());
  auto const offset =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % cache_line) / item;
  auto const span = span_of(tensor);
  auto memory = at::empty({offset + (span.end - span.begin) / item}, options);
  memory.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), offset);
  return memory;
}

FULGURITE_BULK_BODY bool Scene::changed() const { return !world.is_of(model) || !world.unchanged(); }

FULGURITE_BULK_BODY Earlier::Earlier(World const& world, torch::nn::Module const& model, std::vector<char> const& host)
    : world_(world), of_model_(world.is_of(model)), now_(world.switches()) {
  if (!of_model_) return;
  numbers_.emplace(world.host(), host);
  world_.set(world_.recorded());
  reached_ = numbers_->whole() && world_.unchanged();
}

FULGURITE_BULK_BODY Earlier::~Earlier() {
  numbers_.reset();
  if (of_model_) world_.set(stays_ ? world_.recorded() : now_);
}

}  // namespace fulgurite::libtorch::capture
