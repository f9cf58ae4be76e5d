#pragma once
// A module's parameters and buffers as named bytes, and back: what a safetensors file holds.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <fulgurite/checkpoint/weight_view.hpp>
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

inline std::string_view element_name(at::ScalarType type, std::string_view weight) {
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

/// f(std::string_view name, WeightView) for each; the bytes live as long as the call.
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
  for (auto const extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

/// Loads every parameter and buffer from a file with `find(name)` -> entry {dtype, shape} or nullptr, `entries()`, and
/// `read(entry, bytes)`. Names, shapes and types must agree exactly; nothing is written to the model unless all do.
template <class Model, class File>
void load_weights(Model& model, File const& file) {
  at::NoGradGuard const no_graph;
  std::string missing, unexpected, different;
  std::vector<std::string> names;
  auto const add = [](std::string& list, std::string const& what) { list += (list.empty() ? "" : ", ") + what; };
  each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
    names.push_back(name);
    auto const* entry = file.find(name);
    if (entry == nullptr) return add(missing, name);
    auto const type = element_name(tensor.scalar_type(), name);
    auto const shape = tensor.sizes().vec();
    if (entry->dtype != type || entry->shape != shape)
      add(different, name + " (the file has " + std::string(entry->dtype) + " " + shape_text(entry->shape) +
                         ", the model " + std::string(type) + " " + shape_text(shape) + ")");
  });
  for (auto const& entry : file.entries())
    if (std::find(names.begin(), names.end(), entry.name) == names.end()) add(unexpected, entry.name);

  std::string problems;
  auto const say = [&](char const* what, std::string const& list) {
    if (!list.empty()) problems += (problems.empty() ? "" : "; ") + std::string(what) + list;
  };
  say("missing in the file: ", missing);
  say("unknown to the model: ", unexpected);
  say("different: ", different);
  if (!problems.empty())
    throw Error("fulgurite.checkpoint.weights_mismatch",
                "these weights are not this model's; " + problems +
                    ". Load them into a model that is built exactly as the saved one");

  std::vector<at::Tensor> hosts;  // all is read before anything is written: a file that breaks off changes nothing
  each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
    auto& host = hosts.emplace_back(at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type())));
    file.read(*file.find(name), {static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()});
  });
  std::size_t at = 0;
  each_named_tensor(model, [&](std::string const&, at::Tensor& tensor) { tensor.copy_(hosts[at++]); });
}

}  // namespace fulgurite::libtorch
