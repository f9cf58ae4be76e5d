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
  /// the report says what does not; where no name fits, that is an Error.
  bool strict = true;
  /// Floating-point tensors may have another floating-point type in the file; they are rounded as PyTorch rounds.
  bool convert = false;
  /// Names in the file that begin so lose it, each of these once: Lightning puts "model." before the names of a network
  /// that is a member of the module, torch.compile "_orig_mod.", DataParallel "module.".
  std::vector<std::string> remove_prefix = {};
  /// Only names that begin so are taken, after `remove_prefix`, and they lose it: to load a part of a model,
  ///   auto const report = load_weights(*net.backbone, "pretrained.pt", {.from = "backbone."});
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
  /// What model or file keep by the model's state(archive), and was not loaded: the other lacks it, or it does not fit.
  std::vector<std::string> model_state = {};
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

/// The prefix without which the most of some names are among the wanted ones; empty where none is.
struct FittingPrefix {
  std::string prefix = {};
  bool of_all = false;  ///< all names have it
};
FULGURITE_COLD FittingPrefix fitting_prefix(std::set<std::string, std::less<>> const& names,
                                            std::set<std::string, std::less<>> const& wanted) {
  std::map<std::string_view, std::size_t> fits;
  for (std::string_view const name : names)
    for (auto dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      if (wanted.contains(name.substr(dot + 1))) ++fits[name.substr(0, dot + 1)];
  auto const more = [](auto const& a, auto const& b) { return a.second < b.second; };
  auto const best = std::max_element(fits.begin(), fits.end(), more);
  if (best == fits.end()) return {};
  auto const has_it = [&](std::string_view name) { return name.starts_with(best->first); };
  return {std::string(best->first), std::all_of(names.begin(), names.end(), has_it)};
}
/// How to load a file of which no name is one of the model's; empty where no prefix helps.
FULGURITE_COLD std::string prefix_advice(std::vector<FileWeight> const& file,
                                         std::set<std::string, std::less<>> const& model) {
  std::set<std::string, std::less<>> names;
  for (auto const& entry : file) names.emplace(entry.name);
  auto const [prefix, of_all] = fitting_prefix(names, model);
  if (of_all) return "All names begin with '" + prefix + "': say {.remove_prefix = {\"" + prefix + "\"}}";
  if (!prefix.empty()) return "Those that begin with '" + prefix + "' fit: say {.from = \"" + prefix + "\"}";
  auto const part = fitting_prefix(model, names).prefix;
  if (part.empty()) return {};
  return "They fit the part '" + part.substr(0, part.size() - 1) + "' of the model: load them into that part";
}

}  // namespace libtorch
}  // namespace fulgurite
