#pragma once
// Tensors as values: what a metric keeps, how numbers are read on the host, and the gradient that backward starts from.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

/// Whether anybody but the owner of this handle may write to the tensor's memory: it is a parameter or a buffer, or a
/// view or a detached handle of one.
FULGURITE_BULK bool held_elsewhere(at::Tensor const& value) {
  if (!value.defined()) return false;
  if (value.use_count() > 1) return true;
  return value.is_inference() ? value.storage().use_count() > 1
                              : !value.unsafeGetTensorImpl()->version_counter().unique();
}

/// The handle that a metric keeps of a logged value. It is read after the step (a captured step is recorded first), and
/// on a GPU many steps later. Until then it must not keep the graph alive, and a parameter or a buffer, which is
/// updated in place, has to be copied.
inline at::Tensor keep(at::Tensor const& value) {
  if (held_elsewhere(value)) return value.detach().clone();
  return value.is_cpu() || !value.requires_grad() ? value : value.detach();
}

inline bool reading_waits(at::Tensor const& value) { return !value.is_cpu(); }

/// The elements of a tensor on the CPU. LibTorch's const_data_ptr<T>() does not link under clang 18 and later: LibTorch
/// is built by g++, and the two compilers mangle the function's constraint differently.
template <class T>
T const* data_of(at::Tensor const& tensor) {
  return static_cast<T const*>(tensor.const_data_ptr());
}

/// The number in a tensor of one element; else an Error. On the CPU it is loaded from memory, without an operator.
FULGURITE_BULK double read(at::Tensor const& value) {
  if (!value.defined() || value.numel() != 1)
    throw Error("fulgurite.metric.one_element",
                "a logged value has " + (value.defined() ? std::to_string(value.numel()) : std::string("no")) +
                    " elements, it must have exactly one: log its mean(), or the sum()");
  if (value.is_cpu() && value.layout() == at::kStrided && !value.is_neg()) {
    switch (value.scalar_type()) {
    case at::ScalarType::Float: return static_cast<double>(*data_of<float>(value));
    case at::ScalarType::Double: return *data_of<double>(value);
    case at::ScalarType::Long: return static_cast<double>(*data_of<std::int64_t>(value));
    case at::ScalarType::BFloat16: return static_cast<double>(float(*data_of<at::BFloat16>(value)));
    case at::ScalarType::Half: return static_cast<double>(float(*data_of<at::Half>(value)));
    default: break;
    }
  }
  return value.item<double>();
}

/// Reads many values and waits for the device once: values on a device are gathered there, and copied together.
FULGURITE_BULK void read_all(std::span<at::Tensor const> values, std::span<double> into) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> remote;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i != values.size(); ++i) {
    if (!values[i].defined() || values[i].is_cpu() || values[i].numel() != 1) {
      into[i] = read(values[i]);  // which also throws the error, if there is one
      continue;
    }
    auto const flat = values[i].reshape({}).to(at::kDouble);
    remote.push_back(remote.empty() ? flat : flat.to(remote.front().device()));
    place.push_back(i);
  }
  if (remote.empty()) return;
  auto const host = at::stack(remote).cpu();
  auto const* numbers = data_of<double>(host);
  for (std::size_t i = 0; i != place.size(); ++i) into[place[i]] = numbers[i];
}

FULGURITE_COLD void require_scalar(at::Tensor const& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  throw Error("fulgurite.torch.scalar_loss",
              "the loss has " + (loss.defined() ? std::to_string(loss.numel()) : std::string("no")) +
                  " elements, backward starts from exactly one: return its mean() or sum()");
}

/// Throws an Error if backward has nothing to run through. LibTorch would say that in its own words, with a stack
/// trace.
inline void require_graph(at::Tensor const& loss) {
  if (!loss.defined() || loss.requires_grad()) return;
  throw Error("fulgurite.torch.loss_without_graph",
              "the loss depends on no parameter that learns, so there is nothing to run backward through: look for "
              "detach(), a NoGradGuard, item() or argmax() between the parameters and the loss, and whether every "
              "parameter is frozen");
}

inline bool same_kind(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes();
}

/// The gradient to start backward with, so that `loss.backward(seed)` equals `(loss * factor).backward()` without
/// touching the loss. For a factor of 1 it is undefined, which is LibTorch's own default. Others are made once for each
/// thread, factor and kind of loss.
FULGURITE_BULK at::Tensor seed(at::Tensor const& loss, double factor) {
  require_scalar(loss);
  if (factor == 1.0) return {};
  struct Made {
    double factor;
    at::Tensor seed;
  };
  thread_local std::vector<Made> cache;
  for (auto const& made : cache)
    if (made.factor == factor && same_kind(made.seed, loss)) return made.seed;
  if (cache.size() == 64) cache.clear();  // a factor that changes every step must not grow it for ever
  at::NoGradGuard const no_graph;
  return cache.emplace_back(Made{factor, at::full_like(loss.detach(), factor)}).seed;
}

/// The loss times a factor, with its graph: what a model's own `backward` receives.
inline at::Tensor scaled(at::Tensor const& loss, double factor) { return factor == 1.0 ? loss : loss.mul(factor); }

/// The value of the loss without its graph, for hooks that receive a step's outputs.
inline at::Tensor detached(at::Tensor const& loss, double factor) {
  auto value = loss.detach();
  return factor == 1.0 ? value : value.mul(factor);
}

}  // namespace fulgurite::libtorch
