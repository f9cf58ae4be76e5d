#pragma once
// Loads the weights of a file into a model, or into a part of one: all of them, or those that fit.

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
  WeightReport();
  WeightReport(WeightReport const&);
  WeightReport& operator=(WeightReport const&);
  FULGURITE_MOVES(WeightReport);

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
MappedName mapped_name(std::string_view name, WeightOptions const& options);

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
FULGURITE_EXTERN(std::vector<FileWeight> file_weights(SafetensorsFile const&));
FULGURITE_EXTERN(std::vector<FileWeight> file_weights(PtFile const&));

/// The tensors of a file by the names in the model that they stand for.
std::map<std::string, FileWeight, std::less<>> mapped_weights(std::vector<FileWeight> const& file,
                                                              WeightOptions const& options);

/// The prefix without which the most of some names are among the wanted ones; empty where none is.
struct FittingPrefix {
  std::string prefix = {};
  bool of_all = false;  ///< all names have it
};
FittingPrefix fitting_prefix(std::set<std::string, std::less<>> const& names,
                             std::set<std::string, std::less<>> const& wanted);
/// How to load a file of which no name is one of the model's; empty where no prefix helps.
std::string prefix_advice(std::vector<FileWeight> const& file, std::set<std::string, std::less<>> const& model);

}  // namespace libtorch
}  // namespace fulgurite

namespace fulgurite::libtorch {

/// The element type of that name in a file.
at::ScalarType element_type(std::string_view name);

/// Whether a tensor of the file may go into this one of the model.
bool may_load(at::Tensor const& to, std::string_view dtype, std::vector<std::int64_t> const& shape,
              WeightOptions const& options);

/// Throws the Error that lists all that does not fit; `details` says how those that differ do.
[[noreturn]] void refuse_weights(std::vector<FileWeight> const& file, WeightReport const& report,
                                 std::string const& details, std::set<std::string, std::less<>> const& names);
/// Throws the Error for a file of which no name is one of the model's.
[[noreturn]] void refuse_no_name(std::vector<FileWeight> const& file, std::size_t taken,
                                 std::set<std::string, std::less<>> const& names, WeightOptions const& options);

/// What follows by what all kinds of files and models have in common; `read(index, bytes)` reads an entry of the file.
WeightReport load_named_weights(torch::nn::Module const* model, std::vector<FileWeight> const& file,
                                FunctionRef<void(std::size_t, std::span<std::byte>)> read,
                                WeightOptions const& options);

/// Loads parameters and buffers from a file with `entries()`, each {name, dtype, shape}, and `read(entry, bytes)`. All
/// is read before anything is written: a file that breaks off, or does not fit, changes nothing. Tensors that belong to
/// the state of a run are passed over.
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

// A checkpoint of a LibTorch model, read: its weights, and the state of the run.

/// What a fit goes on from, or whose weights an evaluation has: these may be of a file of Python's, too, which its name
/// says (see is_pt_name). Making one reads the state and checks the file's layout; an Error where it is damaged.
class RunFile {
 public:
  using Saver = StateSaver;
  using Memory = StateMemory;

  explicit RunFile(std::filesystem::path const& path);
  FULGURITE_MOVES(RunFile);

  /// Into a model built as the saved one, all of them or none. A model that the strategy has not converted yet takes
  /// them in the precision that it is in.
  template <class Model>
  void load_weights(Model& model) const {
    load_into(module_if_any(model));
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
  template <class Model>
  std::string difference(Model& model, FunctionRef<void(StateSaver&)> fold) const {
    return difference_from(module_if_any(model), fold);
  }

  /// All of the state, to be looked into; empty where the file holds weights alone.
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
