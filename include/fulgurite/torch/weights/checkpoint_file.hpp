#pragma once
// Checkpoint files of LibTorch models: weights as safetensors, the state of the run as text in its metadata, and
// tensors of the state next to the weights.

#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/torch/weights/load_weights.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

namespace libtorch {

/// Writes the weights and, by `state(archive)`, the rest of the run's state.
template <class Model>
void save(std::filesystem::path const& path, Model& model, FunctionRef<void(StateSaver&)> state,
          std::span<Hyperparameter const> hyperparameters = {}) {
  save_run_file(path, [&](TakeWeight f) { each_weight(model, f); }, state, hyperparameters);
}

}  // namespace libtorch

namespace libtorch {

/// Names for an Error, such as "('seen', 'mean')".
std::string in_brackets(std::vector<std::string> const& names);

/// Loading only weights would drop what the file keeps for predictions, so a strict load of a whole file throws if the
/// file has the state of a data module; otherwise that state's entries are added to the report.
void note_data_state(SafetensorsFile const& file, ArchiveNode const& state, WeightOptions const& options,
                     WeightReport& report);

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
/// The names of a model's own state, besides its weights.
std::vector<std::string> own_entries(OwnState const& own);

/// True if a load takes the model's own state from the file. State that only the file or only the model has is added to
/// the report; a strict load of a whole run's file throws. A part of a model does not use the state of the whole.
bool takes_model_state(SafetensorsFile const& file, ArchiveNode const& state, bool keeps,
                       std::vector<std::string> const& own, WeightOptions const& options, WeightReport& report);

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
template <class Model>
[[nodiscard]] WeightReport load_weights(Model& model, std::filesystem::path const& path, WeightOptions const& options) {
  return libtorch::load_path_into(model, path, options);
}

/// Loads a file's weights and its state of a data module, such as means and categories: both, or neither if one does
/// not fit. `data` is a data module, or an object that reads a part of its state, such as data::TableInputs;
/// data_state<T>(file) makes one without the dataset that the run was trained on:
///
///     auto houses = data_state<data::TableInputs>(file);
///     House model(houses.features().size());
///     load_weights(model, houses, file);
template <class Model, Stateful<StateLoader> Data>
WeightReport load_weights(Model& model, Data& data, std::filesystem::path const& path,
                          WeightOptions const& options = {}) {
  auto const fold = [&](auto& archive) { archive.child(data_module_key, data); };
  return libtorch::load_path_into(model, libtorch::OwnState{fold, fold}, path, options);
}
/// Loads all weights of a file into a whole model, so that there is nothing to report, except for a file that is not a
/// run's and lacks the model's own state(archive).
template <class Model>
WeightReport load_weights(Model& model, std::filesystem::path const& path) {
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
