#pragma once
// Masks over the parameters of a LibTorch model, by magnitude.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
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
#include <fulgurite/torch/averaging.hpp>
#include <fulgurite/torch/parameters.hpp>
#include <fulgurite/torch/weights.hpp>

namespace fulgurite::libtorch {

/// A mask is a tensor of its parameter's type: applying all of them is one operator call.
class Masks final : public PruningMasks {
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

  void prune(double amount, bool together) override {
    Mode const mode;
    if (together) prune(amount, 0, weights_.size());
    else
      for (std::size_t i = 0; i != weights_.size(); ++i) prune(amount, i, i + 1);
  }

  void apply_to_weights() override {
    Mode const mode;
    if (!weights_.empty()) at::_foreach_mul_(weights_, masks_);
  }

  void apply_to_gradients() override {
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

  void rewind() override {
    for (std::size_t i = 0; i != initial_.size(); ++i) copy_into(weights_[i], initial_[i]);
    apply_to_weights();
  }

  std::size_t masked() const override { return masked_; }
  std::size_t size() const override { return size_; }
  std::vector<std::string> names() const override { return names_; }

  std::vector<SavedMask> save() const override {
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

  void load(std::vector<SavedMask> const& from) override {
    Mode const mode;
    masked_ = 0;
    for (std::size_t i = 0; i != names_.size(); ++i) {
      auto const count = static_cast<std::size_t>(weights_[i].numel());
      auto const& saved = pruning::find(from, names_[i], count, !initial_.empty());
      auto const bits = pruning::unpack(saved.bits, count);
      for (auto const bit : bits) masked_ += bit == 0;
      masks_[i].copy_(at::tensor(at::ArrayRef<std::uint8_t>(bits)).view(weights_[i].sizes()));
      if (initial_.empty()) continue;
      if (saved.initial->shape != weights_[i].sizes().vec() || saved.initial->dtype != element_name(weights_[i].scalar_type(), names_[i]))
        pruning::refuse(names_[i]);
      restore(initial_[i], *saved.initial);
    }
  }

 private:
  // Validation may run in inference mode: what is made there could not be written to later.
  struct Mode {
    c10::InferenceMode off{false};
    at::NoGradGuard no_graph{};
  };

  void prune(double amount, std::size_t from, std::size_t to) {
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
std::unique_ptr<PruningMasks> masks(Model& model, PruningChoice const& choice) {
  return std::make_unique<Masks>(model, choice);
}

}  // namespace fulgurite::libtorch
