#pragma once
// The bodies of torch/weights/averaging.hpp.

#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY std::vector<at::Tensor> weights(torch::nn::Module const* model) {
  return model == nullptr ? std::vector<at::Tensor>() : distinct(model->parameters());
}

FULGURITE_BULK_BODY std::vector<at::Tensor> buffers(torch::nn::Module const* model) {
  return model == nullptr ? std::vector<at::Tensor>() : distinct(model->buffers());
}

FULGURITE_BULK_BODY bool averages(at::Tensor const& value) { return value.is_floating_point() || value.is_complex(); }

FULGURITE_BULK_BODY void lerp_into(at::Tensor& average, at::Tensor const& value, double t) {
  at::NoGradGuard const no_graph;
  average.lerp_(value, t);
}

FULGURITE_BULK_BODY bool same_layout(at::Tensor const& a, at::Tensor const& b) {
  return (a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble) && same_places(a, b);
}

FULGURITE_BULK_BODY void lerp_into(std::span<at::Tensor> averages, std::span<at::Tensor const> values, double t) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> other_averages, other_values;
  for (std::size_t i = 0; i != averages.size();) {
    std::size_t end = i + 1;
    if (same_layout(averages[i], values[i]))
      while (end != averages.size() && follows(averages[end - 1], averages[end]) &&
             follows(values[end - 1], values[end]) && same_layout(averages[end], values[end]))
        ++end;
    if (end == i + 1) {
      other_averages.push_back(averages[i]);
      other_values.push_back(values[i]);
    } else {
      stretch(averages[i], averages[end - 1]).lerp_(stretch(values[i], values[end - 1]), t);
    }
    i = end;
  }
  if (!other_averages.empty()) at::_foreach_lerp_(other_averages, other_values, t);
}

FULGURITE_BODY void require_average(at::Tensor const& to, SavedTensor const& from) {
  if (!fits(to, from))
    throw Error("fulgurite.callback.average_mismatch",
                "the saved average has a tensor " + from.description() + " where the model has one of shape " +
                    shape_text(to.sizes().vec()) + " or of another type: resume with the model that was saved");
}

FULGURITE_BULK_BODY BatchNormScope::BatchNormScope(torch::nn::Module& model) {
  at::NoGradGuard const no_graph;
  each_batch_norm(model, [&](auto const& norm) {
    norm->reset_running_stats();
    restore_.push_back([norm, momentum = norm->options.momentum()] {
      norm->options.momentum(momentum);
      relocate(norm->num_batches_tracked, norm->running_mean.device(), std::nullopt);
    });
    norm->options.momentum(std::nullopt);
    // Without a momentum each forward pass reads this counter, which would make the host wait for a device.
    relocate(norm->num_batches_tracked, at::Device(at::kCPU), std::nullopt);
  });
}

FULGURITE_BULK_BODY BatchNormScope::~BatchNormScope() {
  at::NoGradGuard const no_graph;
  // In reverse: a norm that is registered under two names was visited twice, the second time without its momentum.
  for (auto restore = restore_.rbegin(); restore != restore_.rend(); ++restore) (*restore)();
}

FULGURITE_BULK_BODY void Masks::prune(double amount, bool together) {
  Mode const mode;
  if (together) prune(amount, 0, weights_.size());
  else
    for (std::size_t i = 0; i != weights_.size(); ++i) prune(amount, i, i + 1);
}

FULGURITE_BULK_BODY void Masks::apply_to_weights() {
  Mode const mode;
  if (!weights_.empty()) at::_foreach_mul_(weights_, masks_);
}

FULGURITE_BULK_BODY void Masks::apply_to_gradients() {
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

FULGURITE_BULK_BODY void Masks::rewind() {
  for (std::size_t i = 0; i != initial_.size(); ++i) copy_into(weights_[i], initial_[i]);
  apply_to_weights();
}

FULGURITE_BULK_BODY std::vector<SavedMask> Masks::save() const {
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

FULGURITE_BULK_BODY void Masks::load(std::vector<SavedMask> const& from) {
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

FULGURITE_BULK_BODY void Masks::prune(double amount, std::size_t from, std::size_t to) {
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

FULGURITE_BULK_BODY bool is_batch_norm(torch::nn::Module const& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() || module.as<torch::nn::BatchNorm2dImpl>() ||
         module.as<torch::nn::BatchNorm3dImpl>() || module.as<SyncBatchNormImpl>();
}

FULGURITE_BODY void set_trainable(torch::nn::Module& module, bool on) {
  for (auto& parameter : module.parameters(false)) {
    parameter.set_requires_grad(on);
    if (!on) parameter.mutable_grad().reset();  // a remaining gradient must not enter an update or a norm
  }
  if (is_batch_norm(module)) module.train(on);
}

}  // namespace fulgurite::libtorch
