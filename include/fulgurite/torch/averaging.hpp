#pragma once
// What averaging weights needs of LibTorch: handles, copies, interpolation, bytes; and statistics of batch norms taken anew.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/checkpoint/saved_value.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/autocast.hpp>
#include <fulgurite/torch/weights.hpp>

namespace fulgurite::libtorch {

/// Each defined tensor once: a module that is registered under two names shares its parameters with itself.
inline std::vector<at::Tensor> distinct(std::vector<at::Tensor> all) {
  std::unordered_set<c10::TensorImpl const*> seen;
  std::erase_if(all, [&](at::Tensor const& tensor) { return !tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second; });
  return all;
}

/// All parameters in order: handles, so what is written to them is written to the model.
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

/// Whether a mean of such tensors is one: not of whole numbers.
inline bool averages(at::Tensor const& value) { return value.is_floating_point() || value.is_complex(); }

/// A copy with memory of its own, even where `value` is a view of a larger one.
inline at::Tensor clone(at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  return value.detach().clone(at::MemoryFormat::Preserve);
}

/// In place: what `to` is a view of is written to, and whoever else holds it sees it.
inline void copy_into(at::Tensor& to, at::Tensor const& from) {
  at::NoGradGuard const no_graph;
  to.copy_(from);
}

/// average += t * (value - average).
inline void lerp_into(at::Tensor& average, at::Tensor const& value, double t) {
  at::NoGradGuard const no_graph;
  average.lerp_(value, t);
}
/// All at once: on a GPU a few kernels instead of one a tensor.
inline void lerp_into(std::span<at::Tensor> averages, std::span<at::Tensor const> values, double t) {
  at::NoGradGuard const no_graph;
  if (!averages.empty()) at::_foreach_lerp_(at::TensorList(averages.data(), averages.size()), at::TensorList(values.data(), values.size()), t);
}

inline SavedValue saved(at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  auto const host = value.detach().cpu().contiguous();
  return {std::string(element_name(host.scalar_type(), "an averaged weight")), host.sizes().vec(),
          std::string(static_cast<char const*>(host.data_ptr()), host.nbytes())};
}

/// The saved bytes into a tensor of the same type and shape.
inline void restore(at::Tensor& to, SavedValue const& from) {
  at::NoGradGuard const no_graph;
  auto const host = at::empty(to.sizes(), at::TensorOptions(to.scalar_type()));
  if (from.dtype != element_name(to.scalar_type(), "an averaged weight") || from.shape != to.sizes().vec() || from.bytes.size() != host.nbytes())
    throw Error("fulgurite.callback.average_mismatch",
                "the saved average has a tensor of " + from.dtype + " " + shape_text(from.shape) + " where the model has one of shape " +
                    shape_text(to.sizes().vec()) + " or of another type: resume with the model that was saved");
  std::copy(from.bytes.begin(), from.bytes.end(), static_cast<char*>(host.data_ptr()));
  to.copy_(host);
}

/// f(batch norm) for each below `model` that takes running statistics now: one that was set to eval() keeps those that it has.
template <class F>
void each_batch_norm(torch::nn::Module& model, F&& f) {
  auto const visit = [&]<class Norm>(std::shared_ptr<torch::nn::Module> const& module, std::type_identity<Norm>) {
    if (auto norm = std::dynamic_pointer_cast<Norm>(module); norm && norm->is_training() && norm->options.track_running_stats()) f(norm);
  };
  for (auto const& module : model.modules(false)) {
    visit(module, std::type_identity<torch::nn::BatchNorm1dImpl>{});
    visit(module, std::type_identity<torch::nn::BatchNorm2dImpl>{});
    visit(module, std::type_identity<torch::nn::BatchNorm3dImpl>{});
  }
}

template <class Model>
bool has_batch_norm(Model& model) {
  bool found = false;
  if constexpr (std::derived_from<Model, torch::nn::Module>) each_batch_norm(model, [&](auto const&) { found = true; });
  return found;
}

/// Running statistics start anew; while it lives they are the mean of all batches seen, afterwards they move as before.
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
