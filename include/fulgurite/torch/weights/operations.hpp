#pragma once
// How many floating-point operations an operator takes: those of matrix products and convolutions, a multiplication and
// an addition being two.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch {

/// f(tensor) for the defined tensors among the inputs or outputs of an operator, in lists, too.
template <class Values, class F>
void each_tensor_in(Values const& values, F&& f) {
  for (c10::IValue const& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined() && value.toTensor().has_storage()) f(value.toTensor());
    } else if (value.isTensorList()) {
      for (at::Tensor const& tensor : value.toTensorVector())
        if (tensor.defined() && tensor.has_storage()) f(tensor);
    }
  }
}

/// An operator's share that is counted: known at once, or for each element of its output.
struct Operation {
  enum Kind : std::uint8_t { none, known, for_each_output } kind = none;
  std::int64_t count = 0;

  std::int64_t flops(std::span<std::int64_t const> out) const {
    std::int64_t all = kind == none ? 0 : count;
    if (kind == for_each_output)
      for (auto const size : out) all *= size;
    return all;
  }
};

/// The definitions are those of PyTorch's FlopCounterMode; recurrent layers count their weights once a time step.
FULGURITE_BULK Operation operation_of(std::string_view name, c10::ArrayRef<c10::IValue const> inputs) {
  constexpr std::string_view library = "aten::";
  if (!name.starts_with(library)) return {};
  name.remove_prefix(library.size());
  auto const sizes = [&](std::size_t i) {
    return i < inputs.size() && inputs[i].isTensor() && inputs[i].toTensor().defined() ? inputs[i].toTensor().sizes()
                                                                                       : at::IntArrayRef();
  };
  auto const product = [](at::IntArrayRef all, std::size_t from = 0) {
    std::int64_t made = 1;
    for (std::size_t i = from; i < all.size(); ++i) made *= all[i];
    return made;
  };
  bool const adds = name == "addmm" || name == "baddbmm";
  if (adds || name == "mm" || name == "bmm") {
    auto const left = sizes(adds ? 1 : 0), right = sizes(adds ? 2 : 1);
    if (left.empty() || right.empty()) return {};
    return {Operation::known, 2 * product(left) * right.back()};
  }
  if (name == "convolution" || name == "convolution_overrideable") {
    auto const input = sizes(0), weight = sizes(1);
    bool const transposed = inputs.size() > 6 && inputs[6].isBool() && inputs[6].toBool();
    if (transposed) return {Operation::known, 2 * product(input) * product(weight, 1)};
    return {Operation::for_each_output, 2 * product(weight, 1)};
  }
  if (name == "scaled_dot_product_attention") {
    auto const query = sizes(0), key = sizes(1), value = sizes(2);
    if (query.size() < 2 || key.size() < 2 || value.empty()) return {};
    return {Operation::known, 2 * product(query) / query.back() * key[key.size() - 2] * (query.back() + value.back())};
  }
  if (name == "lstm" || name == "gru" || name == "rnn_tanh" || name == "rnn_relu") {
    auto const input = sizes(0);
    if (input.empty() || input.back() == 0) return {};
    std::int64_t weights = 0;
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i].isTensorList())
        for (at::Tensor const& tensor : inputs[i].toTensorVector())
          if (tensor.defined() && tensor.dim() == 2) weights += tensor.numel();
    return {Operation::known, 2 * product(input) / input.back() * weights};
  }
  return {};
}

}  // namespace fulgurite::libtorch
