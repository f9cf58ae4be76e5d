#pragma once
// What the data module of a run has learned, read back from one of the run's files: a second program needs it to see
// rows as they were trained on.

#include <concepts>
#include <filesystem>
#include <string>
#include <vector>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// The entries of a run's state that are the data module's and the model's own.
inline constexpr char const* data_module_key = "data_module";
inline constexpr char const* model_key = "model";

/// The state of a run's file, with the values of its tensors or without; empty where the file holds weights alone, or
/// another version or another library wrote it.
FULGURITE_COLD ArchiveNode state_beside_weights(SafetensorsFile const& file, bool with_tensors) {
  auto const& all = file.metadata();
  auto const text = all.find(run_state_key), format = all.find(run_format_key);
  if (text == all.end() || format == all.end() || format->second != run_format) return {};
  if (with_tensors) return run_state(file);
  auto const no_bytes = [](std::string const&) { return SavedTensor(); };
  return from_text(text->second, file.path().string() + ", state of the run", no_bytes);
}
/// The names of what one part of a run has saved.
FULGURITE_COLD std::vector<std::string> entries_of(ArchiveNode const& state, char const* part) {
  auto const* const kept = state.find(part);
  return kept == nullptr ? std::vector<std::string>() : StateLoader(*kept).names();
}

/// The state of a run's file, for what the data module of the run saved. Errors: those of run_state, and
/// [fulgurite.checkpoint.no_data_state] where the file keeps no data module.
FULGURITE_COLD ArchiveNode state_with_data(SafetensorsFile const& file) {
  auto tree = run_state(file);
  if (tree.find(data_module_key) == nullptr)
    throw Error("fulgurite.checkpoint.no_data_state",
                file.path().string() +
                    " keeps nothing of a data module: its run was given loaders, or a module without state(archive); "
                    "pass the module itself to fit");
  return tree;
}

/// What the data module of a run has saved of itself, in an object that reads it by its own `state(archive)`:
///   auto houses = data_state<data::TableInputs>("runs/a/last.safetensors");
///   auto words = data_state<data::Vocabulary>("runs/b/last.safetensors");
/// The file of data that the run was trained on is not needed. Entries that `T` does not read are skipped.
template <std::default_initializable T>
T data_state(std::filesystem::path const& file) {
  auto const tree = state_with_data(SafetensorsFile(file));
  T object{};
  load_state(tree, [&](auto& archive) { archive.child(data_module_key, object); });
  return object;
}

}  // namespace fulgurite
