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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>

namespace fulgurite {

/// The entry of the metadata that holds the state.
inline constexpr char const* run_state_key = "fulgurite";

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

/// Writes such a file; `Backend::save` calls it. `each_weight(f)` hands over the weights, `fold(archive)` saves the
/// state of the run. Tensors of the state are written one by one after the weights, so nothing may change them until
/// this returns.
///   save_run_file(path, [&](auto&& f) { each_weight(model, f); }, fold);
template <class EachWeight, class Fold>
void save_run_file(std::filesystem::path const& path, EachWeight&& each_weight, Fold&& fold, Metadata metadata = {},
                   std::uint64_t longest = safetensors::longest_header) {
  ArchiveNode tree;
  StateSaver saver(tree, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  std::vector<ArchiveTensor const*> tensors;
  auto const by_name = [&](ArchiveTensor const& tensor) {
    tensors.push_back(&tensor);
    return R"({"$tensor":)" + json::quoted(tensor.name) + "}";
  };
  auto text = to_text(tree, by_name);
  auto const escapes = std::count_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\\'; });
  if (text.size() + static_cast<std::size_t>(escapes) > longest) refuse_long_state(path, tree, longest);
  metadata[run_state_key] = std::move(text);
  metadata.emplace("format", "pt");  // Python's libraries ask for it before they load
  write_safetensors(path, metadata, [&](auto&& f) {
    each_weight([&](std::string_view name, WeightView const& view) {
      if (is_state_tensor(name))
        throw Error("fulgurite.checkpoint.weights",
                    "cannot write " + path.string() + ": the weight '" + std::string(name) +
                        "' has a name that only tensors of the run's state have: rename it");
      f(name, view);
    });
    for (auto const* one : tensors)
      one->tensor.read([&](SavedTensor::Bytes bytes) {
        f(std::string(state_tensor_prefix) + one->name, WeightView{one->tensor.dtype(), one->tensor.shape(), bytes});
      });
  });
}

/// Reads the state from a file, with all its tensors, for `load_state`. Nothing in the file is trusted. Error
/// [fulgurite.checkpoint.no_run_state] where the file holds weights alone.
inline ArchiveNode run_state(SafetensorsFile const& file) {
  auto const found = file.metadata().find(run_state_key);
  if (found == file.metadata().end())
    throw Error("fulgurite.checkpoint.no_run_state",
                file.path().string() + " holds weights alone, not the state of a run: nothing can be resumed from it");
  auto const refuse = [&](std::string const& name, char const* how) {
    throw Error("fulgurite.checkpoint.state_tensor",
                file.path().string() + how + "'" + name +
                    "': the file was not written by this library, or was changed since");
  };
  std::set<std::string> taken;
  auto tree = from_text(found->second, file.path().string() + ", state of the run", [&](std::string const& name) {
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
