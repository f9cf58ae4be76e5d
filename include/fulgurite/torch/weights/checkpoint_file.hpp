#pragma once
// Checkpoint files of LibTorch models: weights as safetensors, the state of the run as text in its metadata, tensors of
// the state beside the weights.

#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <fulgurite/checkpoint/data_state.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/checkpoint/state_memory.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/torch/weights/load_weights.hpp>
#include <fulgurite/torch/weights/parameters.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

namespace libtorch {

/// Writes the weights and, by `state(archive)`, everything of the run that is not a weight.
template <class Model, class State>
void save(std::filesystem::path const& path, Model& model, State&& state,
          std::span<Hyperparameter const> hyperparameters = {}) {
  save_run_file(path, [&](auto&& f) { each_weight(model, f); }, state, hyperparameters);
}

}  // namespace libtorch

namespace libtorch {

/// Weights alone would drop what else the file keeps for predictions, so a strict load of a whole file refuses one that
/// keeps a data module; otherwise its entries are in the report.
FULGURITE_COLD void note_data_state(SafetensorsFile const& file, WeightOptions const& options, WeightReport& report) {
  report.data_state = data_entries(file);
  if (report.data_state.empty() || !options.strict || options.without_data_state || !options.from.empty()) return;
  std::string all;
  for (auto const& name : report.data_state) all += (all.empty() ? "'" : ", '") + name + "'";
  throw Error("fulgurite.checkpoint.data_state",
              file.path().string() + " also keeps what the data module of its run has learned (" + all +
                  "), and without it the model may see other inputs than it was trained on: load both, "
                  "load_weights(model, data, file), or say {.without_data_state = true}");
}

template <class Model, class File>
WeightReport load_file(Model& model, File const& file, WeightOptions const& options) {
  if constexpr (PartOfModel<Model>) return load_weights(module_of(model), file, options);
  else return load_weights(model, file, options);
}

}  // namespace libtorch

/// Loads the weights of a file into a model, or a part of one: of a checkpoint or any other safetensors file, or, where
/// the name ends in .pt, .pth, .ckpt or .bin, of one that Python's torch.save or Lightning wrote. Without options the
/// model has to be built exactly as the saved one: an Error lists what is missing, unknown or different, and nothing is
/// changed. Nor may the file keep a data module, [fulgurite.checkpoint.data_state]: see below.
///   load_weights(model, trainer.callback<Best>().best_model_path());
///   auto const report = load_weights(model, "lightning.ckpt", {.strict = false, .remove_prefix = {"model."}});
template <class Model>
[[nodiscard]] WeightReport load_weights(Model& model, std::filesystem::path const& path, WeightOptions const& options) {
  if (is_pt_name(path)) return libtorch::load_file(model, PtFile(path), options);
  SafetensorsFile const file(path);
  WeightReport kept;
  libtorch::note_data_state(file, options, kept);
  auto report = libtorch::load_file(model, file, options);
  report.data_state = std::move(kept.data_state);
  return report;
}

/// The same, with what the file keeps of the data module, such as means and categories: both, or neither where one does
/// not fit. `data` is a data module or what reads a part of its state, such as data::TableInputs; data_state<T>(file)
/// makes one without the file of data that the run was trained on.
///   auto houses = data_state<data::TableInputs>(file);
///   House model(houses.features().size());
///   load_weights(model, houses, file);
template <class Model, Stateful<StateLoader> Data>
WeightReport load_weights(Model& model, Data& data, std::filesystem::path const& path,
                          WeightOptions const& options = {}) {
  SafetensorsFile const file(path);
  auto const tree = state_with_data(file);
  auto const fold = [&](auto& archive) { archive.child(data_module_key, data); };
  StateMemory before;
  before.save(fold);
  load_state(tree, fold);
  try {
    return libtorch::load_file(model, file, options);
  } catch (...) {
    before.put_back(fold);
    throw;
  }
}
/// All of a file into all of a model, so that there is nothing to report.
template <class Model>
WeightReport load_weights(Model& model, std::filesystem::path const& path) {
  return load_weights(model, path, WeightOptions{});
}

}  // namespace fulgurite
