#pragma once
// Freezing parts of a model and making them trainable again.

#include <concepts>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/callback/base_finetuning.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/weights/parameters.hpp>

namespace fulgurite {

namespace libtorch {

/// f(module) for a part of a model and all modules below it. The part need not be held by a pointer.
template <class F>
void each_module(torch::nn::Module& part, F&& f) {
  f(part);
  for (auto const& child : part.modules(false)) f(*child);
}

inline bool is_batch_norm(torch::nn::Module const& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() || module.as<torch::nn::BatchNorm2dImpl>() ||
         module.as<torch::nn::BatchNorm3dImpl>() || module.as<SyncBatchNormImpl>();
}

FULGURITE_COLD void set_trainable(torch::nn::Module& module, bool on) {
  for (auto& parameter : module.parameters(false)) {
    parameter.set_requires_grad(on);
    if (!on) parameter.mutable_grad().reset();  // what is left of it must not enter an update or a norm
  }
  if (is_batch_norm(module)) module.train(on);
}

}  // namespace libtorch

/// From now on the parameters of the part receive no gradient. Batch norms stay trainable; with `train_bn` false they,
/// too, stand still: they normalise with their running statistics, and do not update them. `part`: a module, or what
/// holds one.
template <libtorch::PartOfModel Part>
void freeze(Part& part, bool train_bn = true) {
  libtorch::each_module(libtorch::module_of(part), [&](auto& module) {
    libtorch::set_trainable(module, train_bn && libtorch::is_batch_norm(module));
  });
}

/// The reverse of freeze: all parameters of the part receive gradients again, and its batch norms learn.
template <libtorch::PartOfModel Part>
void make_trainable(Part& part) {
  libtorch::each_module(libtorch::module_of(part), [](auto& module) { libtorch::set_trainable(module, true); });
}

/// The same under Lightning's name.
template <libtorch::PartOfModel Part>
void unfreeze(Part& part) {
  make_trainable(part);
}

/// The parameters that are trainable, or with `requires_grad` false those that are frozen; a tensor with several names
/// is listed once. While a part of the model is frozen the optimizer is given the former:
/// `torch::optim::SGD(filter_params(*this), 0.1)`.
template <libtorch::PartOfModel Part>
std::vector<at::Tensor> filter_params(Part& part, bool requires_grad = true) {
  auto parameters = libtorch::distinct(libtorch::module_of(part).parameters());
  std::erase_if(parameters, [&](auto const& parameter) { return parameter.requires_grad() != requires_grad; });
  return parameters;
}

namespace libtorch {

/// These functions as members of a Backend, for callbacks that do not know LibTorch.
struct Finetuning {
  template <class Part>
  static void freeze(Part& part, bool train_bn) {
    fulgurite::freeze(part, train_bn);
  }
  template <class Part>
  static void freeze_batch_norms(Part& part) {
    each_module(module_of(part), [](auto& module) {
      if (is_batch_norm(module)) set_trainable(module, false);
    });
  }
  template <class Part>
  static void make_trainable(Part& part) {
    fulgurite::make_trainable(part);
  }
  template <class Part>
  static std::vector<at::Tensor> filter_params(Part& part, bool requires_grad) {
    return fulgurite::filter_params(part, requires_grad);
  }
  static bool same(at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); }
};

}  // namespace libtorch

/// Makes the part trainable. Parameters of it that the optimizer does not have yet become a new group. Returns how many
/// these are. A callback derived from BaseFinetuning calls its own function of that name, which also keeps the group in
/// the callback's state.
template <libtorch::PartOfModel Part, class Optimizer>
std::size_t unfreeze_and_add_param_group(Part& part, Optimizer& optimizer, UnfreezeOptions const& how = {}) {
  return finetuning::unfreeze_and_add_param_group<libtorch::Finetuning>(part, optimizer, how).size();
}

}  // namespace fulgurite
