#pragma once
// The parameters and buffers of a module as named bytes: what a file of weights holds.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <fulgurite/checkpoint/weight_view.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

struct ElementName {
  at::ScalarType type;
  std::string_view name;
};
inline constexpr ElementName element_names[] = {{at::ScalarType::Double, "F64"}, {at::ScalarType::Float, "F32"},
                                                {at::ScalarType::Half, "F16"},   {at::ScalarType::BFloat16, "BF16"},
                                                {at::ScalarType::Long, "I64"},   {at::ScalarType::Int, "I32"},
                                                {at::ScalarType::Short, "I16"},  {at::ScalarType::Char, "I8"},
                                                {at::ScalarType::Byte, "U8"},    {at::ScalarType::Bool, "BOOL"}};

FULGURITE_COLD std::string_view element_name(at::ScalarType type, std::string_view weight) {
  for (auto const& known : element_names)
    if (known.type == type) return known.name;
  throw Error("fulgurite.checkpoint.element_type",
              "'" + std::string(weight) + "' is of type " + c10::toString(type) +
                  ", which a safetensors file cannot hold: keep it as real and imaginary part, or as integers");
}

/// f(name, tensor&) for parameters, then buffers, by their dotted names.
template <class Model, class F>
void each_named_tensor(Model& model, F&& f) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    for (auto& parameter : model.named_parameters()) f(parameter.key(), parameter.value());
    for (auto& buffer : model.named_buffers()) f(buffer.key(), buffer.value());
  }
}

/// f(std::string_view name, WeightView) for each parameter and buffer. The bytes live as long as the call.
template <class Model, class F>
void each_weight(Model& model, F&& f) {
  at::NoGradGuard const no_graph;
  each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
    auto const host = tensor.detach().cpu().contiguous();
    f(std::string_view(name), WeightView{element_name(host.scalar_type(), name),
                                         host.sizes().vec(),
                                         {static_cast<std::byte const*>(host.const_data_ptr()), host.nbytes()}});
  });
}

inline std::string shape_text(std::span<std::int64_t const> shape) {
  std::string text = "[";
  for (auto const extent : shape) (text += text.size() == 1 ? "" : ", ") += std::to_string(extent);
  return text + "]";
}

}  // namespace fulgurite::libtorch
