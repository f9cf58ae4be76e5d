#pragma once
// Tensors as values: what a metric's slot keeps, reading on the host, and the gradient that backward starts from.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

/// Whether somebody beside the one handle at hand may write to it: a parameter, a buffer, a view or a detached handle of one.
inline bool held_elsewhere(at::Tensor const& value) {
  if (!value.defined()) return false;
  if (value.use_count() > 1) return true;
  return value.is_inference() ? value.storage().use_count() > 1 : !value.unsafeGetTensorImpl()->version_counter().unique();
}

/// A handle for a slot. It is read after the step, where a captured one is written down, or, of a device, many steps later: until then a
/// value must not keep its graph alive, and a parameter or a buffer, which is updated in place, is copied.
inline at::Tensor keep(at::Tensor const& value) {
  if (held_elsewhere(value)) return value.detach().clone();
  return value.is_cpu() || !value.requires_grad() ? value : value.detach();
}

inline bool reading_waits(at::Tensor const& value) { return !value.is_cpu(); }

/// The elements of a host tensor. LibTorch's const_data_ptr<T>() does not link under clang 18 and later: the library
/// was built by g++, and the two mangle its constraint differently.
template <class T>
T const* data_of(at::Tensor const& tensor) {
  return static_cast<T const*>(tensor.const_data_ptr());
}

/// The one element of a tensor. On the CPU a load, not an operator call.
inline double read(at::Tensor const& value) {
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

/// Reads many with one wait: those on a device are gathered there and copied once.
inline void read_all(std::span<at::Tensor const> values, std::span<double> into) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> remote;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i != values.size(); ++i) {
    if (!values[i].defined() || values[i].is_cpu() || values[i].numel() != 1) {
      into[i] = read(values[i]);  // or its error
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

inline void require_scalar(at::Tensor const& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  throw Error("fulgurite.torch.scalar_loss",
              "the loss has " + (loss.defined() ? std::to_string(loss.numel()) : std::string("no")) +
                  " elements, backward starts from exactly one: return its mean() or sum()");
}

inline bool same_kind(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes();
}

/// The gradient that backward starts with, so that `loss.backward(seed)` equals `(loss * factor).backward()` without
/// touching the loss. 1 is LibTorch's own default: an undefined tensor. Others are made once per thread, factor and
/// kind of loss.
inline at::Tensor seed(at::Tensor const& loss, double factor) {
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

/// The loss times a factor, still attached to its graph: what a model's own `backward` receives.
inline at::Tensor scaled(at::Tensor const& loss, double factor) { return factor == 1.0 ? loss : loss.mul(factor); }

/// The value of the loss for hooks that take outputs.
inline at::Tensor detached(at::Tensor const& loss, double factor) {
  auto value = loss.detach();
  return factor == 1.0 ? value : value.mul(factor);
}

}  // namespace fulgurite::libtorch
