#pragma once
// Checkpoint files of LibTorch models: weights as safetensors, the state of the run as text in its metadata.

#include <filesystem>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/torch/weights.hpp>

namespace fulgurite {

namespace libtorch {

/// Weights and, by `state(archive)`, everything of the run that is not a weight.
template <class Model, class State>
void save(std::filesystem::path const& path, Model& model, State&& state) {
  save_run_file(path, [&](auto&& f) { each_weight(model, f); }, state);
}

}  // namespace libtorch

/// Loads the weights of a checkpoint, or of any safetensors file, into a model built exactly as the saved one; an Error names what
/// is missing, unknown or of another shape, and then the model is unchanged.
///   load_weights(model, trainer.callback<Best>().best_model_path());
template <class Model>
void load_weights(Model& model, std::filesystem::path const& path) {
  libtorch::load_weights(model, SafetensorsFile(path));
}

}  // namespace fulgurite
