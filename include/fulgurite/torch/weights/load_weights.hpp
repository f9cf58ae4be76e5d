#pragma once
// Loads the weights of a file into a model, or into a part of one: all of them, or those that fit.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

// Which tensor of a file goes into which of a model: options, what came of them, and how names are mapped.

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

// A checkpoint of a LibTorch model, read: its weights, and the state of the run.

/// What a fit goes on from, or whose weights an evaluation has: these may be of a file of Python's, too, which its name
/// says (see is_pt_name). Making one reads the state and checks the file's layout; an Error where it is damaged.
class RunFile {
 public:
  using Saver = StateSaver;
  using Memory = StateMemory;

  explicit RunFile(std::filesystem::path const& path) {
    if (is_pt_name(path) && is_zip(path)) {  // a ModelCheckpoint's own files may have such an ending, too
      file_.emplace<PtFile>(path);
    } else {
      tree_ = run_state_if_any(file_.emplace<SafetensorsFile>(path));
    }
  }

  /// Into a model built as the saved one, all of them or none. A model that the strategy has not converted yet takes
  /// them in the precision that it is in.
  template <class Model>
  void load_weights(Model& model) const {
    if (auto const* const ours = std::get_if<SafetensorsFile>(&file_))
      libtorch::load_weights(model, *ours, {.convert = true});
    else libtorch::load_weights(model, std::get<PtFile>(file_), {.convert = true});
  }
  /// fold(archive): all of the state that it visits, or nothing.
  template <class Fold>
  void load(Fold&& fold) const {
    load_state(tree_, fold);
  }
  /// The same for a fold that visits everything: what neither it nor a fold before it reads does not fit.
  template <class Fold>
  void load_whole(Fold&& fold) const {
    load_state(tree_, fold, Unread::refused);
  }

  /// In which parts a program differs from the one that wrote the file; `fold(archive)` saves its list of parts.
  template <class Model, class Fold>
  std::string difference(Model& model, Fold&& fold) const {
    auto const* const ours = std::get_if<SafetensorsFile>(&file_);
    if (ours == nullptr) return {};
    auto const each_shape = [&](auto&& f) {
      each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
        f(name, element_name(tensor.scalar_type(), name), tensor.sizes().vec());
      });
    };
    return assembly_difference(*ours, tree_, each_shape, fold);
  }

  /// All of the state, to be looked into; empty where the file holds weights alone.
  ArchiveNode const& state() const { return tree_; }

 private:
  FULGURITE_COLD static bool is_zip(std::filesystem::path const& path) {
    std::array<char, 4> first{};
    std::ifstream(path, std::ios::binary).read(first.data(), first.size());
    return first == std::array{'P', 'K', '\3', '\4'};
  }

  std::variant<std::monostate, SafetensorsFile, PtFile> file_{};
  ArchiveNode tree_{};
};

}  // namespace fulgurite::libtorch
