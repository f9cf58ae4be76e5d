#pragma once
// Checkpoint files of LibTorch models: weights as safetensors, the state of the run as text in its metadata, tensors of
// the state beside the weights.

#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/pt_writer.hpp>
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

/// Writes the weights and, by `state(archive)`, everything of the run that is not a weight.
template <class Model, class State>
void save(std::filesystem::path const& path, Model& model, State&& state,
          std::span<Hyperparameter const> hyperparameters = {}) {
  save_run_file(path, [&](auto&& f) { each_weight(model, f); }, state, hyperparameters);
}

}  // namespace libtorch

namespace libtorch {

/// Names for an Error, such as "('seen', 'mean')".
std::string in_brackets(std::vector<std::string> const& names);

/// Weights alone would drop what else the file keeps for predictions, so a strict load of a whole file refuses one that
/// keeps a data module; otherwise its entries are in the report.
void note_data_state(SafetensorsFile const& file, ArchiveNode const& state, WeightOptions const& options,
                     WeightReport& report);

/// The object that has a model's state(archive): shared pointers and holders of modules have none of their own.
template <class Model>
auto& owner_of_state(Model& model) {
  if constexpr (!Stateful<Model, StateLoader> && requires { *model; }) return *model;
  else return model;
}
template <class Model>
inline constexpr bool keeps_state =
    Stateful<std::remove_cvref_t<decltype(owner_of_state(std::declval<Model&>()))>, StateLoader>;

/// The names of what a model keeps beside its weights.
template <class Model>
std::vector<std::string> own_entries([[maybe_unused]] Model& model) {
  ArchiveNode state;
  if constexpr (keeps_state<Model>) {
    StateSaver saver(state, {}, StateSaver::Tensors::borrowed);
    saver.child(model_key, owner_of_state(model));
  }
  return entries_of(state, model_key);
}

/// Whether a load takes the model's own state from a file of that state. One that only the file or only the model has
/// is in the report; of a whole file of a run, a strict load refuses it. A part of a model has no state of the whole.
bool takes_model_state(SafetensorsFile const& file, ArchiveNode const& state, bool keeps,
                       std::vector<std::string> const& own, WeightOptions const& options, WeightReport& report);

template <class Model, class File>
WeightReport load_file(Model& model, File const& file, WeightOptions const& options) {
  if constexpr (PartOfModel<Model>) return load_weights(module_of(model), file, options);
  else return load_weights(model, file, options);
}

/// Loads the weights of a run's file and what it keeps of the model beside them, or neither where one does not fit.
template <class Model>
WeightReport load_model(Model& model, SafetensorsFile const& file, ArchiveNode const& state,
                        WeightOptions const& options) {
  WeightReport kept;
  auto const load = [&] {
    auto report = load_file(model, file, options);
    report.model_state = kept.model_state;
    return report;
  };
  [[maybe_unused]] bool const takes =
      takes_model_state(file, state, keeps_state<Model>, own_entries(model), options, kept);
  if constexpr (keeps_state<Model>) {
    if (takes) {
      auto const fold = [&](auto& archive) { archive.child(model_key, owner_of_state(model)); };
      StateMemory before;
      before.save(fold);
      try {
        load_state(state, fold);
      } catch (Error const&) {
        if (options.strict) throw;
        kept.model_state = entries_of(state, model_key);
        return load();
      }
      try {
        return load();
      } catch (...) {
        before.put_back(fold);
        throw;
      }
    }
  }
  return load();
}

}  // namespace libtorch

/// Loads the weights of a file into a model, or a part of one: of a checkpoint or any other safetensors file, or, where
/// the name ends in .pt, .pth, .ckpt or .bin, of one that Python's torch.save or Lightning wrote. Without options the
/// model has to be built exactly as the saved one: an Error lists what is missing, unknown or different, and nothing is
/// changed. What the model keeps by state(archive) is loaded with its weights; a run's file and a model of which only
/// one keeps it do not fit, [fulgurite.checkpoint.model_state]. Nor may the file keep a data module,
/// [fulgurite.checkpoint.data_state]: see below.
///   load_weights(model, trainer.callback<Best>().best_model_path());
///   auto const report = load_weights(model, "lightning.ckpt", {.strict = false, .remove_prefix = {"model."}});
template <class Model>
[[nodiscard]] WeightReport load_weights(Model& model, std::filesystem::path const& path, WeightOptions const& options) {
  if (is_pt_name(path)) {
    auto report = libtorch::load_file(model, PtFile(path), options);
    report.model_state = libtorch::own_entries(model);
    return report;
  }
  SafetensorsFile const file(path);
  auto const state = state_beside_weights(file, libtorch::keeps_state<Model>);
  WeightReport kept;
  libtorch::note_data_state(file, state, options, kept);
  auto report = libtorch::load_model(model, file, state, options);
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
    return libtorch::load_model(model, file, tree, options);
  } catch (...) {
    before.put_back(fold);
    throw;
  }
}
/// All of a file into all of a model, so that there is nothing to report, unless a file that is not of a run lacks what
/// the model keeps by state(archive).
template <class Model>
WeightReport load_weights(Model& model, std::filesystem::path const& path) {
  return load_weights(model, path, WeightOptions{});
}

// Weights for Python: a file that torch.load reads.

/// Writes parameters and buffers of a model, or of a part of one, for Python:
///   save_pt(model, "weights.pt");            // C++
///   net.load_state_dict(torch.load("weights.pt"))  # Python
/// The file is replaced as a whole, or stays as it was.
template <class Model>
void save_pt(Model& model, std::filesystem::path const& path) {
  if constexpr (libtorch::PartOfModel<Model>)
    write_pt(path, [&](auto&& f) { libtorch::each_weight(libtorch::module_of(model), f); });
  else write_pt(path, [&](auto&& f) { libtorch::each_weight(model, f); });
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/weights/checkpoint_file.ipp>
#endif
