#pragma once
// A file with the weights of a model and the state of its run, in the safetensors format. The state is text in the
// file's metadata; tensors of the state stand beside the weights, under names with a prefix. Python reads the weights
// alone by
//   weights = {n: t for n, t in safetensors.torch.load_file(path).items() if not n.startswith("fulgurite:")}

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/fingerprint.hpp>
#include <fulgurite/checkpoint/hyperparameter_text.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/hyperparameters.hpp>

namespace fulgurite {

/// The entry of the metadata that holds the state.
inline constexpr char const* run_state_key = "fulgurite";
/// The entry with the version of what this library puts into a file, and the version that it writes and reads.
inline constexpr char const* run_format_key = "fulgurite.format";
/// Another version is refused when a file is read.
inline constexpr char const* run_format = "2";

/// Throws an Error that names the part of the state which makes its text longer than the header of a file can be.
[[noreturn]] inline void refuse_long_state(std::filesystem::path const& path, ArchiveNode const& tree,
                                           std::uint64_t longest) {
  std::pair<std::size_t, std::string> part;
  for (auto const& [name, node] : std::get<ArchiveNode::Object>(tree.value))
    part = std::max(part, {to_text(node, [](ArchiveTensor const&) { return std::string(); }).size(), name});
  throw Error("fulgurite.checkpoint.state_size",
              "cannot write " + path.string() + ": the state of '" + part.second + "' is a text of " +
                  std::to_string(part.first) + " bytes, and the header of a file holds " + std::to_string(longest) +
                  ": keep large values as tensors, by archive.tensor(name, tensor)");
}

/// The metadata of such a file, from the state of the run. `tensor(ArchiveTensor const&)` is called for each tensor of
/// it. `longest`: what a header may have in bytes.
FULGURITE_COLD Metadata run_metadata(std::filesystem::path const& path, ArchiveNode const& tree,
                                     std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                                     std::uint64_t longest, FunctionRef<void(ArchiveTensor const&)> tensor) {
  auto const by_name = [&](ArchiveTensor const& one) {
    tensor(one);
    return R"({"$tensor":)" + json::quoted(one.name) + "}";
  };
  auto text = to_text(tree, by_name);
  auto const escapes = std::count_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\\'; });
  if (text.size() + static_cast<std::size_t>(escapes) > longest) refuse_long_state(path, tree, longest);
  metadata[run_state_key] = std::move(text);
  metadata[run_format_key] = run_format;
  if (!hyperparameters.empty()) metadata[hyperparameters_key] = hyperparameter_text(hyperparameters);
  metadata.emplace("format", "pt");  // Python's libraries ask for it before they load
  return metadata;
}

/// Adds the value that stands for the program to the metadata of a file; see fingerprint.hpp.
struct AddFingerprint {
  ArchiveNode const& state;
  void operator()(Metadata& metadata, std::vector<safetensors::Entry> const& tensors) const {
    metadata[fingerprint_key] = fingerprint(state, tensors);
  }
};

/// No weight may have a name that only tensors of the state have.
inline void refuse_state_name(std::filesystem::path const& path, std::string_view weight) {
  if (is_state_tensor(weight))
    throw Error("fulgurite.checkpoint.weights",
                "cannot write " + path.string() + ": the weight '" + std::string(weight) +
                    "' has a name that only tensors of the run's state have: rename it");
}

/// Writes such a file from a state that has been saved: see save_run_file.
FULGURITE_COLD void write_run_file(std::filesystem::path const& path, ArchiveNode const& tree, EachWeight each_weight,
                                   std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                                   std::uint64_t longest) {
  std::vector<ArchiveTensor const*> tensors;
  auto all = run_metadata(path, tree, hyperparameters, std::move(metadata), longest,
                          [&](ArchiveTensor const& tensor) { tensors.push_back(&tensor); });
  auto const each = [&](TakeWeight f) {
    each_weight([&](std::string_view name, WeightView const& view) {
      refuse_state_name(path, name);
      f(name, view);
    });
    for (auto const* one : tensors)
      one->tensor.read([&](SavedTensor::Bytes bytes) {
        f(std::string(state_tensor_prefix) + one->name, WeightView{one->tensor.dtype(), one->tensor.shape(), bytes});
      });
  };
  write_safetensors(path, std::move(all), each, Checksums::written, AddFingerprint{tree});
}

/// Writes such a file; `Backend::save` calls it. `each_weight(f)` hands over the weights, `fold(archive)` saves the
/// state of the run. Tensors of the state are written one by one after the weights, so nothing may change them until
/// this returns.
///   save_run_file(path, [&](auto&& f) { each_weight(model, f); }, fold);
template <class Fold>
void save_run_file(std::filesystem::path const& path, EachWeight each_weight, Fold&& fold,
                   std::span<Hyperparameter const> hyperparameters = {}, Metadata metadata = {},
                   std::uint64_t longest = safetensors::longest_header) {
  ArchiveNode tree;
  StateSaver saver(tree, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  write_run_file(path, tree, each_weight, hyperparameters, std::move(metadata), longest);
}

/// The file holds the state of a run, in this library's format, and every byte of it is as it was written. Errors
/// [fulgurite.checkpoint.no_run_state] where the file holds weights alone, [fulgurite.checkpoint.format] where another
/// version wrote it, [fulgurite.checkpoint.checksum] where it is damaged.
inline void check_run_file(SafetensorsFile const& file) {
  auto const& all = file.metadata();
  if (!all.contains(run_state_key))
    throw Error("fulgurite.checkpoint.no_run_state",
                file.path().string() + " holds weights alone, not the state of a run: nothing can be resumed from it");
  auto const format = all.find(run_format_key);
  if (format == all.end() || format->second != run_format)
    throw Error("fulgurite.checkpoint.format",
                file.path().string() + " has " +
                    (format == all.end() ? "no format" : "format '" + format->second + "'") +
                    ", and this version of the library reads format '" + run_format +
                    "': read it with the version that wrote it; its weights alone can be loaded by load_weights");
  if (!file.has_checksums())
    throw Error("fulgurite.checkpoint.checksum",
                file.path().string() + " has no checksums, so it was changed since it was written: take another one");
  file.verify();
}

/// Reads the state from a file, with all its tensors, for `load_state`. Nothing in the file is trusted; that all of it,
/// weights too, is as it was written is checked first: see check_run_file.
inline ArchiveNode run_state(SafetensorsFile const& file) {
  check_run_file(file);
  auto const refuse = [&](std::string const& name, char const* how) {
    throw Error("fulgurite.checkpoint.state_tensor",
                file.path().string() + how + "'" + name +
                    "': the file was not written by this library, or was changed since");
  };
  std::set<std::string> taken;
  auto tree = from_text(file.metadata().at(run_state_key), file.path().string() + ", state of the run",
                        [&](std::string const& name) {
                          auto const full = std::string(state_tensor_prefix) + name;
                          auto const* entry = file.find(full);
                          if (entry == nullptr) refuse(full, " lacks a tensor of the run's state, ");
                          if (!taken.insert(full).second) refuse(full, " uses twice a tensor of the run's state, ");
                          std::vector<std::byte> bytes(entry->end - entry->begin);
                          file.read(*entry, bytes);
                          return SavedTensor(entry->dtype, entry->shape, std::move(bytes));
                        });
  for (auto const& entry : file.entries())
    if (is_state_tensor(entry.name) && !taken.contains(entry.name))
      refuse(entry.name, " holds a tensor that the run's state does not know, ");
  return tree;
}
/// The same, or an empty tree where the file holds weights alone.
inline ArchiveNode run_state_if_any(SafetensorsFile const& file) {
  return file.metadata().find(run_state_key) == file.metadata().end() ? ArchiveNode{} : run_state(file);
}

}  // namespace fulgurite
