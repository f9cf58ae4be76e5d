#pragma once
// Masks over the parameters of a LibTorch model, which set the smallest values to zero.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <c10/core/InferenceMode.h>

#include <fulgurite/callback/pruning_masks.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/weights/averaging.hpp>
#include <fulgurite/torch/weights/parameters.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// A mask is a tensor of its parameter's type, so that one operator applies all of them.
class Masks {
 public:
  template <class Model>
  Masks(Model& model, PruningChoice const& choice) {
    Mode const mode;
    for (auto const& [name, weight] : named_parameters(model)) {
      if (!choice(name) || !weight.is_floating_point()) continue;
      names_.push_back(name);
      weights_.push_back(weight);
      masks_.push_back(at::ones_like(weight.detach()));
      if (choice.keep_initial) initial_.push_back(libtorch::clone(weight));
      size_ += static_cast<std::size_t>(weight.numel());
    }
  }

  FULGURITE_BULK void prune(double amount, bool together) {
    Mode const mode;
    if (together) prune(amount, 0, weights_.size());
    else
      for (std::size_t i = 0; i != weights_.size(); ++i) prune(amount, i, i + 1);
  }

  void apply_to_weights() {
    Mode const mode;
    if (!weights_.empty()) at::_foreach_mul_(weights_, masks_);
  }

  FULGURITE_BULK void apply_to_gradients() {
    Mode const mode;
    std::vector<at::Tensor> gradients, masks;
    for (std::size_t i = 0; i != weights_.size(); ++i) {
      auto const& gradient = weights_[i].grad();
      if (!gradient.defined() || gradient.is_sparse()) continue;
      gradients.push_back(gradient);
      masks.push_back(masks_[i]);
    }
    if (!gradients.empty()) at::_foreach_mul_(gradients, masks);
  }

  void rewind() {
    for (std::size_t i = 0; i != initial_.size(); ++i) copy_into(weights_[i], initial_[i]);
    apply_to_weights();
  }

  std::size_t masked() const { return masked_; }
  std::size_t size() const { return size_; }
  std::vector<std::string> names() const { return names_; }

  FULGURITE_BULK std::vector<SavedMask> save() const {
    Mode const mode;
    std::vector<SavedMask> saved;
    for (std::size_t i = 0; i != names_.size(); ++i) {
      auto const host = masks_[i].to(at::kByte).cpu().contiguous();
      auto const* bytes = static_cast<std::uint8_t const*>(host.data_ptr());
      saved.push_back({names_[i], pruning::pack({bytes, static_cast<std::size_t>(host.numel())})});
      if (!initial_.empty()) saved.back().initial = libtorch::saved(initial_[i]);
    }
    return saved;
  }

  FULGURITE_BULK void load(std::vector<SavedMask> const& from) {
    Mode const mode;
    std::vector<SavedMask const*> of;  // nothing changes unless all of them fit
    for (std::size_t i = 0; i != names_.size(); ++i) {
      auto const count = static_cast<std::size_t>(weights_[i].numel());
      of.push_back(&pruning::find(from, names_[i], count, !initial_.empty()));
      if (!initial_.empty() && !fits(initial_[i], *of[i]->initial)) pruning::refuse(names_[i]);
    }
    masked_ = 0;
    for (std::size_t i = 0; i != names_.size(); ++i) {
      auto const bits = pruning::unpack(of[i]->bits, static_cast<std::size_t>(weights_[i].numel()));
      for (auto const bit : bits) masked_ += bit == 0;
      masks_[i].copy_(at::tensor(at::ArrayRef<std::uint8_t>(bits)).view(weights_[i].sizes()));
      if (!initial_.empty()) restore(initial_[i], *of[i]->initial);
    }
  }

 private:
  // Validation may run in inference mode, whose tensors could not be written to later.
  struct Mode {
    c10::InferenceMode off{false};
    at::NoGradGuard no_graph{};
  };

  FULGURITE_BULK void prune(double amount, std::size_t from, std::size_t to) {
    auto const device = weights_[from].device();
    std::vector<at::Tensor> magnitudes, masks;
    for (std::size_t i = from; i != to; ++i) {
      magnitudes.push_back(weights_[i].detach().flatten().abs().to(device));
      masks.push_back(masks_[i].flatten().to(device));
    }
    auto mask = at::cat(masks);
    auto const left = at::nonzero(mask).flatten();
    auto const chosen = static_cast<std::int64_t>(std::nearbyint(amount * static_cast<double>(left.size(0))));
    if (chosen == 0) return;
    auto const smallest = std::get<1>(at::topk(at::cat(magnitudes).index_select(0, left), chosen, -1, false, false));
    mask.index_fill_(0, left.index_select(0, smallest), 0);
    masked_ += static_cast<std::size_t>(chosen);
    for (std::int64_t i = static_cast<std::int64_t>(from), at = 0; i != static_cast<std::int64_t>(to); ++i) {
      auto& part = masks_[static_cast<std::size_t>(i)];
      part.copy_(mask.narrow(0, at, part.numel()).view(part.sizes()));
      at += part.numel();
    }
  }

  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, masks_, initial_;  ///< in the same order; initial_ only where it is kept
  std::size_t masked_ = 0, size_ = 0;
};

template <class Model>
Masks masks(Model& model, PruningChoice const& choice) {
  return Masks(model, choice);
}

}  // namespace fulgurite::libtorch
