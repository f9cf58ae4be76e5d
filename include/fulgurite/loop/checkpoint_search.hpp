#pragma once
// Where the files of earlier runs may lie, before setup has said which folders this run has.

#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/type_name.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// What a callback is told that names files of earlier runs: `last_checkpoints(search)` or `hpc_checkpoints(search)`,
/// which are asked before setup. Without an argument they speak of the folders that the callback knows.
struct CheckpointSearch {
  std::filesystem::path root = {};  ///< default_root_dir
  std::string model = {};           ///< the name of the model's type
  /// The folders of all runs that the trainer's loggers know of; nothing where it has no logger.
  std::optional<std::vector<std::filesystem::path>> runs = std::nullopt;
};

namespace loop {

/// The loggers name the folders of their runs by `earlier_runs(options)`.
template <class Model, class Pack>
CheckpointSearch checkpoint_search(Pack& pack, TrainerOptions const& options) {
  CheckpointSearch search{options.default_root_dir.path(), std::string(type_name<Model>())};
  pack.each([&](auto& callback) {
    using C = std::remove_reference_t<decltype(callback)>;
    constexpr bool knows_runs = hook::earlier_runs::accepts<C, TrainerOptions const>;
    if constexpr (requires { callback.log_dir(); } || knows_runs)
      if (!search.runs) search.runs.emplace();
    if constexpr (knows_runs)
      for (auto& folder : callback.earlier_runs(options)) search.runs->push_back(std::move(folder));
  });
  return search;
}

/// The files that a callback names by a function of that name, which may take what it searches by.
template <class C>
concept NamesLast = hook::last_checkpoints::accepts<C, CheckpointSearch const> || hook::last_checkpoints::accepts<C>;
template <class C>
concept NamesHpc = hook::hpc_checkpoints::accepts<C, CheckpointSearch const> || hook::hpc_checkpoints::accepts<C>;
/// The best file that a callback has written, by `best_model_path()`.
template <class C>
concept NamesBest = requires(C& callback) { std::filesystem::path(callback.best_model_path()); };

template <class C>
std::vector<std::filesystem::path> last_of(C& callback, [[maybe_unused]] CheckpointSearch const& search) {
  if constexpr (hook::last_checkpoints::accepts<C, CheckpointSearch const>) return callback.last_checkpoints(search);
  else return callback.last_checkpoints();
}
template <class C>
std::vector<std::filesystem::path> hpc_of(C& callback, [[maybe_unused]] CheckpointSearch const& search) {
  if constexpr (hook::hpc_checkpoints::accepts<C, CheckpointSearch const>) return callback.hpc_checkpoints(search);
  else return callback.hpc_checkpoints();
}

}  // namespace loop
}  // namespace fulgurite
