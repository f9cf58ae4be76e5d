#pragma once
// What the callbacks that average weights need of LibTorch: handles, copies, interpolation, bytes; and the
// recomputation of batch norms' running statistics.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/pruning_masks.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {
namespace libtorch {

/// All parameters in order. They are handles: writing to them changes the model.
std::vector<at::Tensor> weights(torch::nn::Module const* model);
std::vector<at::Tensor> buffers(torch::nn::Module const* model);

/// True if a tensor can be averaged; integers, such as counts, cannot.
bool averages(at::Tensor const& value);

/// average += t * (value - average).
void lerp_into(at::Tensor& average, at::Tensor const& value, double t);
/// True if both tensors have the same memory layout, and a type whose results do not depend on the position in memory.
bool same_layout(at::Tensor const& a, at::Tensor const& b);

/// The same for many values: contiguous ones (see `clones`) in one operation, the others in a few kernels on a GPU
/// instead of one per tensor.
void lerp_into(std::span<at::Tensor> averages, std::span<at::Tensor const> values, double t);

/// Throws an Error unless the saved bytes fit a tensor of an average.
void require_average(at::Tensor const& to, SavedTensor const& from);

/// Calls `f(norm)` for each batch norm below `model` that has running statistics.
void each_tracking_norm(torch::nn::Module& model, auto&& f) {
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

/// Calls `f(norm)` for each batch norm that updates its running statistics. One in eval() does not.
void each_batch_norm(torch::nn::Module& model, auto&& f) {
  each_tracking_norm(model, [&](auto const& norm) {
    if (norm->is_training()) f(norm);
  });
}

/// The running statistics of all batch norms: for each its mean, its variance, and the number of batches.
template <class Model>
std::vector<at::Tensor> running_statistics([[maybe_unused]] Model& model) {
  std::vector<at::Tensor> all;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    each_tracking_norm(model, [&](auto const& norm) {
      for (auto const& one : {norm->running_mean, norm->running_var, norm->num_batches_tracked}) all.push_back(one);
    });
  return all;
}

/// Copies of the running statistics.
std::vector<SavedTensor> norm_statistics(auto& model) {
  std::vector<SavedTensor> all;
  for (auto const& one : running_statistics(model)) all.push_back(saved(one.detach().clone()));
  return all;
}
/// Restores such copies in the model that they were made from.
void restore_norm_statistics(auto& model, std::span<SavedTensor const> from) {
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

/// Resets the running statistics of batch norms. While this object lives they are the mean over all batches; afterwards
/// they are updated with their previous momentum.
class BatchNormScope : Pinned {
 public:
  explicit BatchNormScope(torch::nn::Module& model);
  ~BatchNormScope();

 private:
  std::vector<std::function<void()>> restore_;
};

template <class Model>
auto reset_batch_norm([[maybe_unused]] Model& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return BatchNormScope(model);
  else return NoScope{};
}

// Masks over the parameters of a LibTorch model, which set the smallest values to zero.

/// A mask is a tensor of its parameter's type, so that one operator applies all masks.
class Masks {
 public:
  Masks(auto& model, PruningChoice const& choice) {
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

  void prune(double amount, bool together);

  void apply_to_weights();

  void apply_to_gradients();

  void rewind();

  std::size_t masked() const { return masked_; }
  std::size_t size() const { return size_; }
  std::vector<std::string> names() const { return names_; }

  std::vector<SavedMask> save() const;

  void load(std::vector<SavedMask> const& from);

 private:
  // Validation may run in inference mode, but the tensors must be writable later.
  struct Mode {
    c10::InferenceMode off{false};
    at::NoGradGuard no_graph{};
  };

  void prune(double amount, std::size_t from, std::size_t to);

  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, masks_, initial_;  ///< in the same order; initial_ only with keep_initial
  std::size_t masked_ = 0, size_ = 0;
};

Masks masks(auto& model, PruningChoice const& choice) { return Masks(model, choice); }

// Freezes parts of a model and makes them trainable again.

/// Calls `f(module)` for a part of a model and all modules below it. The part need not be held by a pointer.
void each_module(torch::nn::Module& part, auto&& f) {
  f(part);
  for (auto const& child : part.modules(false)) f(*child);
}

bool is_batch_norm(torch::nn::Module const& module);

void set_trainable(torch::nn::Module& module, bool on);

}  // namespace libtorch

/// Freezes a part of a model, for example a pretrained backbone: `freeze(backbone)`. Its parameters receive no gradient
/// from now on. Batch norms stay trainable; with `train_bn` false they are frozen, too: they normalise with their
/// running statistics, and do not update them. `part`: a module, or a holder of one.
void freeze(libtorch::PartOfModel auto& part, bool train_bn = true) {
  libtorch::each_module(libtorch::module_of(part), [&](auto& module) {
    libtorch::set_trainable(module, train_bn && libtorch::is_batch_norm(module));
  });
}

/// The reverse of freeze: all parameters of the part receive gradients again, and its batch norms are trained.
void make_trainable(libtorch::PartOfModel auto& part) {
  libtorch::each_module(libtorch::module_of(part), [](auto& module) { libtorch::set_trainable(module, true); });
}

/// Lightning's name for make_trainable.
void unfreeze(libtorch::PartOfModel auto& part) { make_trainable(part); }

/// The trainable parameters, or with `requires_grad` false the frozen ones; a tensor with several names is listed once.
/// While a part of the model is frozen, give the optimizer the trainable ones: `torch::optim::SGD(filter_params(*this),
/// 0.1)`.
std::vector<at::Tensor> filter_params(libtorch::PartOfModel auto& part, bool requires_grad = true) {
  auto parameters = libtorch::distinct(libtorch::module_of(part).parameters());
  std::erase_if(parameters, [&](auto const& parameter) { return parameter.requires_grad() != requires_grad; });
  return parameters;
}

namespace libtorch {

/// These functions as members of a Backend, for callbacks that do not know LibTorch.
struct Finetuning {
  static void freeze(auto& part, bool train_bn) { fulgurite::freeze(part, train_bn); }
  static void freeze_batch_norms(auto& part) {
    each_module(module_of(part), [](auto& module) {
      if (is_batch_norm(module)) set_trainable(module, false);
    });
  }
  static void make_trainable(auto& part) { fulgurite::make_trainable(part); }
  static std::vector<at::Tensor> filter_params(auto& part, bool requires_grad) {
    return fulgurite::filter_params(part, requires_grad);
  }
  static bool same(at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); }
};

}  // namespace libtorch

/// Makes the part trainable, and adds those of its parameters that the optimizer does not have yet as a new group:
/// `unfreeze_and_add_param_group(backbone, optimizer, {.lr = 1e-4})`. Returns their number. A callback derived from
/// BaseFinetuning calls its own function of that name, which also keeps the group in the callback's state.
std::size_t unfreeze_and_add_param_group(libtorch::PartOfModel auto& part, auto& optimizer,
                                         UnfreezeOptions const& how = {}) {
  return finetuning::unfreeze_and_add_param_group<libtorch::Finetuning>(part, optimizer, how).size();
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/weights/averaging.ipp>
#endif
