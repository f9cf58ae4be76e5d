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
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/checkpoint/saved_value.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/arena_slices.hpp>
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
/// Copies that lie side by side, as the slices of an arena do: where the values do, too, an average over all is one operation.
inline std::vector<at::Tensor> clones(std::span<at::Tensor const> values) {
  at::NoGradGuard const no_graph;
  struct Flat {
    at::Tensor memory;
    std::int64_t size = 0;
  };
  std::vector<Flat> flats;
  std::vector<std::pair<std::size_t, std::int64_t>> places;
  for (auto const& value : values) {
    auto flat = std::find_if(flats.begin(), flats.end(), [&](Flat const& one) {
      return one.memory.scalar_type() == value.scalar_type() && one.memory.device() == value.device();
    });
    if (flat == flats.end()) flat = flats.insert(flat, {at::empty({0}, value.options().requires_grad(false))});
    places.emplace_back(flat - flats.begin(), flat->size);
    flat->size += aligned(value.numel(), value);
  }
  for (auto& flat : flats) flat.memory = at::zeros({flat.size}, flat.memory.options());
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i != values.size(); ++i) {
    auto const detached = values[i].detach();
    all.push_back(slice(flats[places[i].first].memory, places[i].second, detached));
    all.back().copy_(detached);
  }
  return all;
}

/// Memory in which `b` begins where a slice after `a` does.
inline bool follows(at::Tensor const& a, at::Tensor const& b) {
  return b.storage().unsafeGetStorageImpl() == a.storage().unsafeGetStorageImpl() && b.scalar_type() == a.scalar_type() &&
         b.storage_offset() == a.storage_offset() + aligned(a.numel(), a);
}
/// Number for number at the same distance from their beginnings, and a kind whose numbers come out the same wherever they lie.
inline bool same_layout(at::Tensor const& a, at::Tensor const& b) {
  return (a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble) && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}
/// `length` numbers from where `first` begins.
inline at::Tensor stretch(at::Tensor const& first, std::int64_t length) {
  auto all = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(first.storage()), first.key_set(), first.dtype());
  all.unsafeGetTensorImpl()->set_storage_offset(first.storage_offset());
  all.unsafeGetTensorImpl()->set_sizes_contiguous({length});
  return all;
}

/// All at once: neighbours of `clones` in one operation; of the others, on a GPU, a few kernels instead of one a tensor.
inline void lerp_into(std::span<at::Tensor> averages, std::span<at::Tensor const> values, double t) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> other_averages, other_values;
  for (std::size_t i = 0; i != averages.size();) {
    std::size_t end = i + 1;
    if (same_layout(averages[i], values[i]))
      while (end != averages.size() && follows(averages[end - 1], averages[end]) && follows(values[end - 1], values[end]) &&
             same_layout(averages[end], values[end]))
        ++end;
    if (end == i + 1) {
      other_averages.push_back(averages[i]);
      other_values.push_back(values[i]);
    } else {
      auto const length = averages[end - 1].storage_offset() + averages[end - 1].numel() - averages[i].storage_offset();
      stretch(averages[i], length).lerp_(stretch(values[i], length), t);
    }
    i = end;
  }
  if (!other_averages.empty()) at::_foreach_lerp_(other_averages, other_values, t);
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
