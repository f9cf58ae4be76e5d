#pragma once
// Which tensor of a file goes into which of a model: options, what came of them, and how names are mapped.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// How load_weights goes about it.
struct WeightOptions {
  /// Every tensor of the model is in the file and the reverse, or nothing is loaded. Without, what fits is loaded, and
  /// the report says what does not.
  bool strict = true;
  /// Floating-point tensors may have another floating-point type in the file; they are rounded as PyTorch rounds.
  bool convert = false;
  /// Names in the file that begin so lose it, each of these once: Lightning puts "model." before the names of a network
  /// that is a member of the module, torch.compile "_orig_mod.", DataParallel "module.".
  std::vector<std::string> remove_prefix = {};
  /// Only names that begin so are taken, after `remove_prefix`, and they lose it: to load a part of a model,
  ///   load_weights(*net.backbone, "pretrained.pt", {.from = "backbone."});
  std::string from = "";
  /// What the file keeps of its run's data module is not needed: the model will see data of its own. Otherwise such a
  /// file is refused, unless the load is not strict or has `from`.
  bool without_data_state = false;
};

/// What load_weights did, by the names of the model; `unexpected` by the names of the file.
struct WeightReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;          ///< the file lacks them
  std::vector<std::string> unexpected;       ///< the model lacks them
  std::vector<std::string> different;        ///< of another shape or element type; they are never loaded
  std::vector<std::string> data_state = {};  ///< what the file keeps of a data module, and was not loaded
};

namespace libtorch {

/// The name in the model that a name in the file stands for. What `from` leaves out is passed over: `wanted` is false.
struct MappedName {
  std::string name;
  bool wanted = true;
};
FULGURITE_COLD MappedName mapped_name(std::string_view name, WeightOptions const& options) {
  auto prefixes = options.remove_prefix;
  for (auto at = prefixes.begin(); at != prefixes.end();) {
    if (at->empty() || !name.starts_with(*at)) {
      ++at;
      continue;
    }
    name.remove_prefix(at->size());
    prefixes.erase(at);  // each goes once: a model may have such a name inside
    at = prefixes.begin();
  }
  if (!name.starts_with(options.from)) return {std::string(name), false};
  return {std::string(name.substr(options.from.size())), true};
}

/// A tensor of a file, whatever kind of file that is; what it points to is the file's.
struct FileWeight {
  std::string_view name;
  std::string_view dtype;  ///< safetensors' name, such as "F32"
  std::vector<std::int64_t> const* shape;
  std::size_t index;  ///< among the file's entries
};

/// Those of a file with `entries()`, each {name, dtype, shape}, but for tensors that belong to the state of a run.
template <class File>
std::vector<FileWeight> file_weights(File const& file) {
  std::vector<FileWeight> all;
  std::size_t index = 0;
  for (auto const& entry : file.entries()) {
    if (!is_state_tensor(entry.name)) all.push_back({entry.name, entry.dtype, &entry.shape, index});
    ++index;
  }
  return all;
}

/// The tensors of a file by the names in the model that they stand for.
FULGURITE_COLD std::map<std::string, FileWeight, std::less<>> mapped_weights(std::vector<FileWeight> const& file,
                                                                             WeightOptions const& options) {
  std::map<std::string, FileWeight, std::less<>> mapped;
  for (auto const& entry : file) {
    auto const [name, wanted] = mapped_name(entry.name, options);
    if (!wanted) continue;
    auto const [place, fresh] = mapped.emplace(name, entry);
    if (!fresh)
      throw Error("fulgurite.checkpoint.weight_names", "without their prefixes '" + std::string(place->second.name) +
                                                           "' and '" + std::string(entry.name) + "' are both '" + name +
                                                           "': give fewer prefixes in .remove_prefix");
  }
  return mapped;
}

/// The prefix that all names have in common and without which they are names of the model, or "".
FULGURITE_COLD std::string common_prefix(std::vector<FileWeight> const& file,
                                         std::set<std::string, std::less<>> const& wanted) {
  if (file.empty()) return {};
  auto common = file.front().name;
  for (auto const& entry : file) {
    auto const [end, ignored] = std::mismatch(common.begin(), common.end(), entry.name.begin(), entry.name.end());
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  for (auto dot = common.find('.'); dot != common.npos; dot = common.find('.', dot + 1))
    if (std::any_of(file.begin(), file.end(),
                    [&](FileWeight const& entry) { return wanted.contains(entry.name.substr(dot + 1)); }))
      return std::string(common.substr(0, dot + 1));
  return {};
}

}  // namespace libtorch
}  // namespace fulgurite
