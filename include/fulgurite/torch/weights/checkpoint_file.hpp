#pragma once
// Checkpoint files of LibTorch models: weights as safetensors, the state of the run as text in its metadata, and
// tensors of the state next to the weights.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

// Loads the weights in a file into a model, or into a part of one: all of them, or those that fit.

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
  FULGURITE_COPIES(WeightReport);

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
std::vector<FileWeight> file_weights(auto const& file) {
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

/// The prefix whose removal turns the most names into wanted ones; empty if there is none.
struct FittingPrefix {
  std::string prefix = {};
  bool of_all = false;  ///< all names have the prefix
};

/// The element type with this name in a file; Undefined if LibTorch has none.
at::ScalarType element_type(std::string_view name);

/// The part of loading that is common to all kinds of files and models; `read(index, bytes)` reads an entry of the
/// file.
WeightReport load_named_weights(torch::nn::Module const* model, std::vector<FileWeight> const& file,
                                FunctionRef<void(std::size_t, std::span<std::byte>)> read,
                                WeightOptions const& options);

/// Loads parameters and buffers from a file with `entries()`, each {name, dtype, shape}, and `read(entry, bytes)`.
/// Everything is read before anything is written: a file that is cut off, or does not fit, changes nothing. Tensors of
/// a run's state are skipped.
WeightReport load_weights(torch::nn::Module const* model, auto const& file, WeightOptions const& options) {
  auto const read = [&](std::size_t index, std::span<std::byte> into) { file.read(file.entries()[index], into); };
  return load_named_weights(model, file_weights(file), read, options);
}
FULGURITE_EXTERN(WeightReport load_weights(torch::nn::Module const*, SafetensorsFile const&, WeightOptions const&));
FULGURITE_EXTERN(WeightReport load_weights(torch::nn::Module const*, PtFile const&, WeightOptions const&));
WeightReport load_weights(auto& model, auto const& file, WeightOptions const& options = {}) {
  return load_weights(module_if_any(model), file, options);
}

// Reading a checkpoint of a LibTorch model: its weights, and the state of the run.

/// The file that a fit resumes from, or whose weights an evaluation uses. The latter may also be a file from Python, as
/// its name says (see is_pt_name). The constructor reads the state and checks the file's layout; it throws an Error if
/// the file is damaged.
class RunFile {
 public:
  explicit RunFile(std::filesystem::path const& path);
  FULGURITE_MOVES(RunFile);

  /// Loads the weights into a model that is built like the saved one: all of them or none. A model that the strategy
  /// has not converted yet keeps its precision.
  void load_weights(auto& model) const { load_into(module_if_any(model)); }
  /// Loads by `fold(archive)`: all of the state that it visits, or nothing.
  void load(auto&& fold) const { load_state(tree_, fold); }
  /// Like load, for a fold that visits everything: an entry that neither it nor a previous fold reads is an Error.
  void load_whole(auto&& fold) const { load_state(tree_, fold, Unread::refused); }

  /// Describes in which parts a program differs from the one that wrote the file; `fold(archive)` saves its list of
  /// parts.
  std::string difference(auto& model, FunctionRef<void(StateSaver&)> fold) const {
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

/// Writes the weights and, by `state(archive)`, the rest of the run's state: to a file, or to memory.
void save(std::filesystem::path const& path, torch::nn::Module const* model, FunctionRef<void(StateSaver&)> state,
          std::span<Hyperparameter const> hyperparameters);
void save(RunImage& into, torch::nn::Module const* model, FunctionRef<void(StateSaver&)> state,
          std::span<Hyperparameter const> hyperparameters);

/// The object that has a model's state(archive), behind a shared pointer or a module holder.
template <class Model>
auto& owner_of_state(Model& model) {
  if constexpr (!Stateful<Model, StateLoader> && requires { *model; }) return *model;
  else return model;
}
template <class Model>
inline constexpr bool keeps_state =
    Stateful<std::remove_cvref_t<decltype(owner_of_state(std::declval<Model&>()))>, StateLoader>;

/// How a part of a run saves and loads its own state; empty if it has none.
struct OwnState {
  FunctionRef<void(StateSaver&)> save;
  FunctionRef<void(StateLoader&)> load;
};

/// Loads the weights in a run's file and the model's own state, or neither if one does not fit.
WeightReport load_model(torch::nn::Module const* model, OwnState const& own, SafetensorsFile const& file,
                        ArchiveNode const& state, WeightOptions const& options);

/// The part of load_path_into that is the same for any model.
WeightReport load_path(torch::nn::Module const* model, OwnState const& own, std::filesystem::path const& path,
                       WeightOptions const& options);
WeightReport load_path(torch::nn::Module const* model, OwnState const& own, OwnState const& data,
                       std::filesystem::path const& path, WeightOptions const& options);
template <class Model, class... Rest>
WeightReport load_path_into(Model& model, Rest const&... rest) {
  torch::nn::Module const* module = nullptr;
  if constexpr (PartOfModel<Model>) module = &module_of(model);
  auto const fold = [&]([[maybe_unused]] auto& archive) {
    if constexpr (keeps_state<Model>) archive.child(model_key, owner_of_state(model));
  };
  return load_path(module, keeps_state<Model> ? OwnState{fold, fold} : OwnState{}, rest...);
}

}  // namespace libtorch

/// Loads the weights in a file into a model, or a part of one. The file is a checkpoint or any other safetensors file
/// or, if the name ends in .pt, .pth, .ckpt or .bin, one that Python's torch.save or Lightning wrote:
///
///     load_weights(model, trainer.callback<Best>().best_model_path());
///     auto const report = load_weights(model, "lightning.ckpt", {.strict = false, .remove_prefix = {"model."}});
///
/// Without options the model has to be built exactly as the saved one: otherwise an Error lists what is missing,
/// unknown or different, and nothing is changed. A model's own state(archive) is loaded with its weights; if only the
/// run's file or only the model has it, that is an Error [fulgurite.checkpoint.model_state]. A file with the state of a
/// data module is an Error [fulgurite.checkpoint.data_state]: use the overload below.
[[nodiscard]] WeightReport load_weights(auto& model, std::filesystem::path const& path, WeightOptions const& options) {
  return libtorch::load_path_into(model, path, options);
}

/// Loads a file's weights and its state of a data module, such as means and categories: both, or neither if one does
/// not fit. `data` is a data module, or an object that reads a part of its state, such as data::TableInputs;
/// data_state<T>(file) makes one without the dataset that the run was trained on:
///
///     auto houses = data_state<data::TableInputs>(file);
///     House model(std::ssize(houses.features()));
///     load_weights(model, houses, file);
template <class Model, Stateful<StateLoader> Data>
WeightReport load_weights(Model& model, Data& data, std::filesystem::path const& path,
                          WeightOptions const& options = {}) {
  auto const fold = [&](auto& archive) { archive.child(data_module_key, data); };
  return libtorch::load_path_into(model, libtorch::OwnState{fold, fold}, path, options);
}
/// Loads all weights of a file into a whole model, so that there is nothing to report, except for a file that is not a
/// run's and lacks the model's own state(archive).
WeightReport load_weights(auto& model, std::filesystem::path const& path) {
  return load_weights(model, path, WeightOptions{});
}

// Weights for Python: a file that torch.load can read.

/// Writes parameters and buffers of a model, or of a part of one, for Python:
///
///     save_pt(model, "weights.pt");                  // C++
///     net.load_state_dict(torch.load("weights.pt"))  # Python
///
/// The file is replaced completely, or stays as it was.
template <class Model>
void save_pt(Model& model, std::filesystem::path const& path) {
  if constexpr (libtorch::PartOfModel<Model>)
    write_pt(path, [&](TakeWeight f) { libtorch::each_weight(libtorch::module_of(model), f); });
  else write_pt(path, [&](TakeWeight f) { libtorch::each_weight(model, f); });
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/weights/checkpoint_file.ipp>
#endif
