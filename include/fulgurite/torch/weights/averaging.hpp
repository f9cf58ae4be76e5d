#pragma once
// What the callbacks that average weights need of LibTorch: handles, copies, interpolation, bytes; and running
// statistics of batch norms that are taken anew.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/autocast.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/weights/flat_copies.hpp>
#include <fulgurite/torch/weights/parameters.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// All parameters in order. They are handles: what is written to them is written to the model.
template <class Model>
std::vector<at::Tensor> weights([[maybe_unused]] Model& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return distinct(model.parameters());
  else return {};
}
template <class Model>
std::vector<at::Tensor> buffers([[maybe_unused]] Model& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return distinct(model.buffers());
  else return {};
}

/// Whether such a tensor can be averaged: whole numbers, as counts, cannot.
inline bool averages(at::Tensor const& value) { return value.is_floating_point() || value.is_complex(); }

/// average += t * (value - average).
inline void lerp_into(at::Tensor& average, at::Tensor const& value, double t) {
  at::NoGradGuard const no_graph;
  average.lerp_(value, t);
}
/// Whether the numbers of both lie at the same places, and are of a type whose results do not depend on the place in
/// memory.
FULGURITE_BULK bool same_layout(at::Tensor const& a, at::Tensor const& b) {
  return (a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble) && same_places(a, b);
}

/// The same for all values: those that lie side by side (see `clones`) in one operation, the others in a few kernels on
/// a GPU instead of one for each tensor.
FULGURITE_BULK void lerp_into(std::span<at::Tensor> averages, std::span<at::Tensor const> values, double t) {
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

/// Whether the saved bytes fit a tensor of an average.
FULGURITE_COLD void require_average(at::Tensor const& to, SavedTensor const& from) {
  if (!fits(to, from))
    throw Error("fulgurite.callback.average_mismatch",
                "the saved average has a tensor " + from.description() + " where the model has one of shape " +
                    shape_text(to.sizes().vec()) + " or of another type: resume with the model that was saved");
}

/// f(norm) for each batch norm below `model` that has running statistics.
template <class F>
void each_tracking_norm(torch::nn::Module& model, F&& f) {
  auto const visit = [&]<class Norm>(std::shared_ptr<torch::nn::Module> const& module, std::type_identity<Norm>) {
    if (auto norm = std::dynamic_pointer_cast<Norm>(module); norm && norm->options.track_running_stats()) f(norm);
  };
  for (auto const& module : model.modules(false)) {
    visit(module, std::type_identity<torch::nn::BatchNorm1dImpl>{});
    visit(module, std::type_identity<torch::nn::BatchNorm2dImpl>{});
    visit(module, std::type_identity<torch::nn::BatchNorm3dImpl>{});
    visit(module, std::type_identity<SyncBatchNormImpl>{});
  }
}

/// f(norm) for each of them that updates its statistics. One that was set to eval() does not.
template <class F>
void each_batch_norm(torch::nn::Module& model, F&& f) {
  each_tracking_norm(model, [&](auto const& norm) {
    if (norm->is_training()) f(norm);
  });
}

/// The running statistics of all batch norms: of each its mean, its variance, and how many batches they are of.
template <class Model>
std::vector<at::Tensor> running_statistics([[maybe_unused]] Model& model) {
  std::vector<at::Tensor> all;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    each_tracking_norm(model, [&](auto const& norm) {
      for (auto const& one : {norm->running_mean, norm->running_var, norm->num_batches_tracked}) all.push_back(one);
    });
  return all;
}

/// Copies of them.
template <class Model>
std::vector<SavedTensor> norm_statistics(Model& model) {
  std::vector<SavedTensor> all;
  for (auto const& one : running_statistics(model)) all.push_back(saved(one.detach().clone()));
  return all;
}
/// Such copies into the model that they were taken of.
template <class Model>
void restore_norm_statistics(Model& model, std::span<SavedTensor const> from) {
  auto to = running_statistics(model);
  if (to.size() != from.size())
    throw Error("fulgurite.callback.average_mismatch",
                "the saved average has " + std::to_string(from.size()) + " statistics of batch norms, the model has " +
                    std::to_string(to.size()) + ": resume with the model that was saved");
  for (std::size_t i = 0; i != to.size(); ++i) require_average(to[i], from[i]);
  for (std::size_t i = 0; i != to.size(); ++i) restore(to[i], from[i]);
}

template <class Model>
bool has_batch_norm(Model& model) {
  bool found = false;
  if constexpr (std::derived_from<Model, torch::nn::Module>) each_batch_norm(model, [&](auto const&) { found = true; });
  return found;
}

/// The running statistics of batch norms start anew. While this lives they are the mean over all batches; afterwards
/// they are updated with the momentum that they had.
class BatchNormScope {
 public:
  explicit BatchNormScope(torch::nn::Module& model) {
    at::NoGradGuard const no_graph;
    each_batch_norm(model, [&](auto const& norm) {
      norm->reset_running_stats();
      restore_.push_back([norm, momentum = norm->options.momentum()] { norm->options.momentum(momentum); });
      norm->options.momentum(std::nullopt);
    });
  }
  ~BatchNormScope() {
    for (auto const& restore : restore_) restore();
  }
  BatchNormScope(BatchNormScope const&) = delete;
  BatchNormScope& operator=(BatchNormScope const&) = delete;

 private:
  std::vector<std::function<void()>> restore_;
};

template <class Model>
auto reset_batch_norm([[maybe_unused]] Model& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return BatchNormScope(model);
  else return NoScope{};
}

}  // namespace fulgurite::libtorch
