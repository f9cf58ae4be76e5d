#pragma once
// Checkpoint files of LibTorch models: weights as safetensors, the state of the run as text in its metadata, tensors of
// the state beside the weights.

#include <filesystem>
#include <span>

#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
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

/// Loads the weights of a file into a model, or a part of one: of a checkpoint or any other safetensors file, or, where
/// the name ends in .pt, .pth, .ckpt or .bin, of one that Python's torch.save or Lightning wrote. Without options the
/// model has to be built exactly as the saved one: an Error lists what is missing, unknown or different, and nothing is
/// changed.
///   load_weights(model, trainer.callback<Best>().best_model_path());
///   auto const report = load_weights(model, "lightning.ckpt", {.strict = false, .remove_prefix = {"model."}});
template <class Model>
WeightReport load_weights(Model& model, std::filesystem::path const& path, WeightOptions const& options = {}) {
  if constexpr (libtorch::PartOfModel<Model>) {
    auto& part = libtorch::module_of(model);
    return is_pt_name(path) ? libtorch::load_weights(part, PtFile(path), options)
                            : libtorch::load_weights(part, SafetensorsFile(path), options);
  } else {
    return is_pt_name(path) ? libtorch::load_weights(model, PtFile(path), options)
                            : libtorch::load_weights(model, SafetensorsFile(path), options);
  }
}

}  // namespace fulgurite
