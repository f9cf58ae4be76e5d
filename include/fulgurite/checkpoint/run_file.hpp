#pragma once
// One file for the weights of a model and the state of its run: safetensors, the state as text in its metadata.

#include <filesystem>
#include <string>
#include <utility>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>

namespace fulgurite {

/// The metadata's name of the state.
inline constexpr char const* run_state_key = "fulgurite";

/// What `Backend::save` does with a model whose weights it can hand over: `fold(archive)` saves the state of the run.
///   save_run_file(path, [&](auto&& f) { each_weight(model, f); }, fold);
template <class EachWeight, class Fold>
void save_run_file(std::filesystem::path const& path, EachWeight&& each_weight, Fold&& fold, Metadata metadata = {}) {
  ArchiveNode tree;
  StateSaver saver(tree);
  fold(saver);
  metadata[run_state_key] = to_text(tree);
  metadata.emplace("format", "pt");  // Python's libraries ask for it before they load
  write_safetensors(path, metadata, each_weight);
}

/// The state in a file, for a StateLoader; an Error [fulgurite.checkpoint.no_run_state] when it holds weights alone.
inline ArchiveNode run_state(SafetensorsFile const& file) {
  auto const found = file.metadata().find(run_state_key);
  if (found == file.metadata().end())
    throw Error("fulgurite.checkpoint.no_run_state",
                file.path().string() + " holds weights alone, not the state of a run: nothing can be resumed from it");
  return from_text(found->second, file.path().string() + ", state of the run");
}

}  // namespace fulgurite
