#pragma once
// Loads the weights in a file into a model, or into a part of one: all of them, or those that fit.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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

#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

// Which tensor of a file is loaded into which tensor of a model: options, the report, and the mapping of names.

/// How load_weights maps and checks tensors.
struct WeightOptions {
  /// Requires that model and file have the same tensors; otherwise nothing is loaded. If false, tensors that fit are
  /// loaded, and the report lists the others; it is an Error if no name fits.
  bool strict = true;
  /// Allows another floating-point type in the file; numbers are rounded like in PyTorch.
  bool convert = false;
  /// Removes these prefixes from names in the file, each at most once: Lightning puts "model." before the names of a
  /// network that is a member of the module, torch.compile "_orig_mod.", DataParallel "module.".
  std::vector<std::string> remove_prefix = {};
  /// Takes only names with this prefix, after `remove_prefix`, and removes it, to load a part of a model:
  ///
  ///     auto const report = load_weights(*net.backbone, "pretrained.pt", {.from = "backbone."});
  std::string from = "";
  /// Ignores the state of a data module in the file, because the model will be used with other data. Otherwise such a
  /// file is an Error, unless the load is not strict or has `from`.
  bool without_data_state = false;
};

/// The result of load_weights, by the names in the model; `unexpected` by the names in the file.
struct WeightReport {
  WeightReport();
  WeightReport(WeightReport const&);
  WeightReport& operator=(WeightReport const&);
  FULGURITE_MOVES(WeightReport);

  std::vector<std::string> loaded;
  std::vector<std::string> missing;          ///< tensors that the file lacks
  std::vector<std::string> unexpected;       ///< tensors that the model lacks
  std::vector<std::string> different;        ///< tensors of another shape or element type; they are never loaded
  std::vector<std::string> data_state = {};  ///< a data module's state in the file, which was not loaded
  /// The entries of the model's own state(archive), in model or file, that were not loaded: the other lacks them, or
  /// they do not fit.
  std::vector<std::string> model_state = {};
};

namespace libtorch {

/// The name in the model for a name in the file. `wanted` is false for a name without the prefix `from`, which is
/// skipped.
struct MappedName {
  std::string name;
  bool wanted = true;
};
MappedName mapped_name(std::string_view name, WeightOptions const& options);

/// A tensor of a file of any kind. The views refer to the file object.
struct FileWeight {
  std::string_view name;
  std::string_view dtype;  ///< safetensors' name, such as "F32"
  std::vector<std::int64_t> const* shape;
  std::size_t index;  ///< among the file's entries
};

/// The tensors of a file with `entries()`, each {name, dtype, shape}, except those of a run's state.
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
FULGURITE_EXTERN(std::vector<FileWeight> file_weights(SafetensorsFile const&));
FULGURITE_EXTERN(std::vector<FileWeight> file_weights(PtFile const&));

/// The tensors of a file by their names in the model.
std::map<std::string, FileWeight, std::less<>> mapped_weights(std::vector<FileWeight> const& file,
                                                              WeightOptions const& options);

/// The prefix whose removal turns the most names into wanted ones; empty if there is none.
struct FittingPrefix {
  std::string prefix = {};
  bool of_all = false;  ///< all names have the prefix
};
FittingPrefix fitting_prefix(std::set<std::string, std::less<>> const& names,
                             std::set<std::string, std::less<>> const& wanted);
/// Advice for a file of which no name is in the model; empty if no prefix helps.
std::string prefix_advice(std::vector<FileWeight> const& file, std::set<std::string, std::less<>> const& model);

}  // namespace libtorch
}  // namespace fulgurite

namespace fulgurite::libtorch {

/// The element type with this name in a file.
at::ScalarType element_type(std::string_view name);

/// True if a tensor of the file may be loaded into this one of the model.
bool may_load(at::Tensor const& to, std::string_view dtype, std::vector<std::int64_t> const& shape,
              WeightOptions const& options);

/// Throws the Error that lists everything that does not fit; `details` describes tensors that differ.
[[noreturn]] void refuse_weights(std::vector<FileWeight> const& file, WeightReport const& report,
                                 std::string const& details, std::set<std::string, std::less<>> const& names);
/// Throws the Error for a file of which no name is in the model.
[[noreturn]] void refuse_no_name(std::vector<FileWeight> const& file, std::size_t taken,
                                 std::set<std::string, std::less<>> const& names, WeightOptions const& options);

/// The part of loading that is common to all kinds of files and models; `read(index, bytes)` reads an entry of the
/// file.
WeightReport load_named_weights(torch::nn::Module const* model, std::vector<FileWeight> const& file,
                                FunctionRef<void(std::size_t, std::span<std::byte>)> read,
                                WeightOptions const& options);

/// Loads parameters and buffers from a file with `entries()`, each {name, dtype, shape}, and `read(entry, bytes)`.
/// Everything is read before anything is written: a file that is cut off, or does not fit, changes nothing. Tensors of
/// a run's state are skipped.
template <class File>
WeightReport load_weights(torch::nn::Module const* model, File const& file, WeightOptions const& options) {
  auto const read = [&](std::size_t index, std::span<std::byte> into) { file.read(file.entries()[index], into); };
  return load_named_weights(model, file_weights(file), read, options);
}
FULGURITE_EXTERN(WeightReport load_weights(torch::nn::Module const*, SafetensorsFile const&, WeightOptions const&));
FULGURITE_EXTERN(WeightReport load_weights(torch::nn::Module const*, PtFile const&, WeightOptions const&));
template <class Model, class File>
WeightReport load_weights(Model& model, File const& file, WeightOptions const& options = {}) {
  return load_weights(module_if_any(model), file, options);
}

// Reading a checkpoint of a LibTorch model: its weights, and the state of the run.

/// The file that a fit resumes from, or whose weights an evaluation uses. The latter may also be a file from Python, as
/// its name says (see is_pt_name). The constructor reads the state and checks the file's layout; it throws an Error if
/// the file is damaged.
class RunFile {
 public:
  using Saver = StateSaver;
  using Memory = StateMemory;

  explicit RunFile(std::filesystem::path const& path);
  FULGURITE_MOVES(RunFile);

  /// Loads the weights into a model that is built like the saved one: all of them or none. A model that the strategy
  /// has not converted yet keeps its precision.
  template <class Model>
  void load_weights(Model& model) const {
    load_into(module_if_any(model));
  }
  /// Loads by `fold(archive)`: all of the state that it visits, or nothing.
  template <class Fold>
  void load(Fold&& fold) const {
    load_state(tree_, fold);
  }
  /// Like load, for a fold that visits everything: an entry that neither it nor a previous fold reads is an Error.
  template <class Fold>
  void load_whole(Fold&& fold) const {
    load_state(tree_, fold, Unread::refused);
  }

  /// Describes in which parts a program differs from the one that wrote the file; `fold(archive)` saves its list of
  /// parts.
  template <class Model>
  std::string difference(Model& model, FunctionRef<void(StateSaver&)> fold) const {
    return difference_from(module_if_any(model), fold);
  }

  /// The whole state, for inspection; empty if the file has only weights.
  ArchiveNode const& state() const { return tree_; }

 private:
  static bool is_zip(std::filesystem::path const& path);
  void load_into(torch::nn::Module const* model) const;
  std::string difference_from(torch::nn::Module const* model, FunctionRef<void(StateSaver&)> fold) const;

  std::variant<std::monostate, SafetensorsFile, PtFile> file_;
  ArchiveNode tree_;
};

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/weights/load_weights.ipp>
#endif
