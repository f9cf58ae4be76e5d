#pragma once
// Loads the weights of a file into a model, or into a part of one: all of them, or those that fit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/checkpoint/safetensors_layout.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/torch/weights/weight_names.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

/// The element type of that name in a file.
inline at::ScalarType element_type(std::string_view name) {
  for (auto const& known : element_names)
    if (known.name == name) return known.type;
  throw Error("fulgurite.checkpoint.element_type",
              "a tensor in the file is of type '" + std::string(name) + "', which is not known here");
}

/// Whether a tensor of the file may go into this one of the model.
FULGURITE_COLD bool may_load(at::Tensor const& to, std::string_view dtype, std::vector<std::int64_t> const& shape,
                             WeightOptions const& options) {
  auto const type = element_type(dtype);
  bool const converts = options.convert && at::isFloatingType(type) && at::isFloatingType(to.scalar_type());
  return (type == to.scalar_type() || converts) && to.sizes().vec() == shape;
}

/// Throws the Error that lists all that does not fit; `details` says how those that differ do.
[[noreturn]] FULGURITE_COLD void refuse_weights(std::vector<FileWeight> const& file, WeightReport const& report,
                                                std::string const& details,
                                                std::set<std::string, std::less<>> const& names) {
  std::string problems;
  auto const say = [&](char const* what, std::string const& list) {
    if (!list.empty()) (problems += problems.empty() ? "" : "; ") += std::string(what) + list;
  };
  auto const listed = [](std::vector<std::string> const& all) {
    std::string list;
    for (auto const& one : all) (list += list.empty() ? "" : ", ") += one;
    return list;
  };
  say("missing in the file: ", listed(report.missing));
  say("unknown to the model: ", listed(report.unexpected));
  say("different: ", details);
  auto const advice = report.loaded.empty() ? prefix_advice(file, names) : std::string();
  throw Error("fulgurite.checkpoint.weights_mismatch",
              "these weights are not this model's; " + problems + ". " +
                  (advice.empty() ? "Load them into a model that is built exactly as the saved one, or what fits of "
                                    "them, with {.strict = false}; a part of a model takes its names of a file with "
                                    "{.from = \"part.\"}"
                                  : advice));
}
/// Throws the Error for a file of which no name is one of the model's.
[[noreturn]] FULGURITE_COLD void refuse_no_name(std::vector<FileWeight> const& file, std::size_t taken,
                                                std::set<std::string, std::less<>> const& names,
                                                WeightOptions const& options) {
  auto const first = file.empty() ? "no tensors" : "'" + std::string(file.front().name) + "' among its names";
  auto const advice = prefix_advice(file, names);
  throw Error("fulgurite.checkpoint.no_weight_fits",
              (taken == 0 && !options.from.empty() ? "no name in the file begins with .from = \"" + options.from + "\""
                                                   : "no name in the file is one of the model's, with these options") +
                  ", so nothing would be loaded: the file has " + first + ", the model '" + *names.begin() + "'" +
                  (advice.empty() ? ": load it into the model that it is of" : ". " + advice));
}

/// A parameter or a buffer of the model, and its dotted name.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The same by what all kinds of files and models have in common; `read(index, bytes)` reads an entry of the file.
FULGURITE_COLD WeightReport load_named_weights(std::vector<NamedTensor> const& model,
                                               std::vector<FileWeight> const& file,
                                               FunctionRef<void(std::size_t, std::span<std::byte>)> read,
                                               WeightOptions const& options) {
  at::NoGradGuard const no_graph;
  auto const entries = mapped_weights(file, options);
  WeightReport report;
  std::string details;
  std::set<std::string, std::less<>> names;
  std::vector<std::pair<at::Tensor, FileWeight>> found;
  for (auto const& [name, tensor] : model) {
    names.insert(name);
    auto const at = entries.find(name);
    if (at == entries.end()) {
      report.missing.push_back(name);
      continue;
    }
    auto const& entry = at->second;
    if (may_load(tensor, entry.dtype, *entry.shape, options)) {
      report.loaded.push_back(name);
      found.emplace_back(tensor, entry);
      continue;
    }
    report.different.push_back(name);
    (details += details.empty() ? "" : ", ") +=
        name + " (the file has " + std::string(entry.dtype) + " " + shape_text(*entry.shape) + ", the model " +
        std::string(element_name(tensor.scalar_type(), name)) + " " + shape_text(tensor.sizes()) + ")";
  }
  for (auto const& [name, entry] : entries)
    if (!names.contains(name)) report.unexpected.emplace_back(entry.name);
  if (options.strict && !(report.missing.empty() && report.unexpected.empty() && report.different.empty()))
    refuse_weights(file, report, details, names);
  if (report.loaded.empty() && report.different.empty() && !names.empty())
    refuse_no_name(file, entries.size(), names, options);

  std::vector<at::Tensor> hosts;
  for (auto const& [tensor, entry] : found) {
    auto& host = hosts.emplace_back(at::empty(tensor.sizes(), at::TensorOptions(element_type(entry.dtype))));
    read(entry.index, {static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()});
  }
  for (std::size_t i = 0; i != found.size(); ++i) found[i].first.copy_(hosts[i]);
  return report;
}

/// Loads parameters and buffers from a file with `entries()`, each {name, dtype, shape}, and `read(entry, bytes)`. All
/// is read before anything is written: a file that breaks off, or does not fit, changes nothing. Tensors that belong to
/// the state of a run are passed over.
template <class Model, class File>
WeightReport load_weights(Model& model, File const& file, WeightOptions const& options = {}) {
  std::vector<NamedTensor> tensors;
  each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) { tensors.push_back({name, tensor}); });
  auto const read = [&](std::size_t index, std::span<std::byte> into) { file.read(file.entries()[index], into); };
  return load_named_weights(tensors, file_weights(file), read, options);
}

}  // namespace fulgurite::libtorch
