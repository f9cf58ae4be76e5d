#pragma once
// Where the files of earlier runs may lie, before setup has said which folders this run has.

#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// What a callback is told that names files of earlier runs: `last_checkpoints(search)` or `hpc_checkpoints(search)`,
/// which are asked before setup. Without an argument they speak of the folders that the callback knows.
struct CheckpointSearch {
  std::filesystem::path root = {};  ///< default_root_dir
  /// The folders of all runs that the trainer's loggers know of; nothing where it has no logger.
  std::optional<std::vector<std::filesystem::path>> runs = std::nullopt;
};

namespace loop {

/// The loggers name the folders of their runs by `earlier_runs(options)`.
template <class Pack>
CheckpointSearch checkpoint_search(Pack& pack, TrainerOptions const& options) {
  CheckpointSearch search{options.default_root_dir.path()};
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_dir(); } || requires { callback.earlier_runs(options); })
      if (!search.runs) search.runs.emplace();
    if constexpr (requires { callback.earlier_runs(options); })
      for (auto& folder : callback.earlier_runs(options)) search.runs->push_back(std::move(folder));
  });
  return search;
}

/// The files that a callback names by a function of that name, which may take what it searches by.
template <class C>
concept NamesLast = requires(C& callback, CheckpointSearch const& search) { callback.last_checkpoints(search); } ||
                    requires(C& callback) { callback.last_checkpoints(); };
template <class C>
concept NamesHpc = requires(C& callback, CheckpointSearch const& search) { callback.hpc_checkpoints(search); } ||
                   requires(C& callback) { callback.hpc_checkpoints(); };

template <class C>
std::vector<std::filesystem::path> last_of(C& callback, [[maybe_unused]] CheckpointSearch const& search) {
  if constexpr (requires { callback.last_checkpoints(search); }) return callback.last_checkpoints(search);
  else return callback.last_checkpoints();
}
template <class C>
std::vector<std::filesystem::path> hpc_of(C& callback, [[maybe_unused]] CheckpointSearch const& search) {
  if constexpr (requires { callback.hpc_checkpoints(search); }) return callback.hpc_checkpoints(search);
  else return callback.hpc_checkpoints();
}

}  // namespace loop
}  // namespace fulgurite
