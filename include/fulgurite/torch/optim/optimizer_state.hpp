#pragma once
// All that a torch::optim optimizer knows, in an archive and back: options of its groups, and what it keeps of each
// parameter. Its parameters have no names there, so each is known by its group and its place in it.

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/is_optional.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/torch/optim/optimizer_fields.hpp>
#include <fulgurite/torch/optim/optimizer_reader.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// A field as an archive takes it: tensors become handles, pairs arrays.
inline SavedTensor archived(at::Tensor const& value) {
  if (value.defined() && value.layout() != at::kStrided)
    throw Error("fulgurite.optimizer.state", "an optimizer keeps a sparse tensor, as SGD with momentum does of sparse "
                                             "gradients, which no file can hold: use dense gradients or no momentum");
  return TensorState<at::Tensor>::save(value);
}
template <class List>
  requires std::is_same_v<typename List::value_type, at::Tensor>
std::vector<SavedTensor> archived(List const& values) {
  std::vector<SavedTensor> all;
  for (auto const& value : values) all.push_back(archived(value));
  return all;
}
inline std::optional<std::vector<SavedTensor>> archived(std::optional<std::vector<at::Tensor>> const& values) {
  if (!values) return std::nullopt;
  return archived(*values);
}
template <class T>
  requires(std::is_arithmetic_v<T> || is_optional<T>)
T const& archived(T const& value) {
  return value;
}

template <KnownOptimizer X, class Archive>
void save_optimizer(X const& optimizer, GivenOptions const& given, Archive& archive) {
  using Options = typename OptionsOf<X>::type;
  using State = typename ParamStateOf<X>::type;
  archive("class", std::string(type_name<X>()))("parameters", group_sizes(optimizer));
  auto const each_into = [](auto& to) {
    return [&to](char const* name, auto const& value) { to(name, archived(value)); };
  };
  std::size_t g = 0;
  for (auto const& group : optimizer.param_groups())
    archive.child("group." + std::to_string(g), [&](auto& to) {
      Options now = static_cast<Options const&>(group.options());
      fold_options(given_to<Options>(given, optimizer, g), now, to);
      std::size_t p = 0;
      for (auto const& parameter : group.params())
        to.child("param." + std::to_string(p++), [&](auto& one) {
          auto const kept = optimizer.state().find(parameter.unsafeGetTensorImpl());
          bool const stepped = kept != optimizer.state().end();
          one("shape", parameter.sizes().vec())("has_state", stepped);
          if (stepped) each_kept(static_cast<State const&>(*kept->second), each_into(one));
        });
      ++g;
    });
}

/// Saves or loads; see TorchOptimizer::state.
template <KnownOptimizer X, class Archive>
void optimizer_state(X& optimizer, GivenOptions const& given, Archive& archive) {
  if constexpr (Archive::loading) OptimizerReader<X>(optimizer, given, archive).commit();
  else save_optimizer(optimizer, given, archive);
}

}  // namespace fulgurite::libtorch
