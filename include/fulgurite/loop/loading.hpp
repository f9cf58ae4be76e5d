#pragma once
// Part of a run's state: its loaders, as far as they are asked for more than once.

#include <filesystem>
#include <functional>
#include <optional>

namespace fulgurite::loop {

struct Loading {
  /// Asks the training loader for its size, loading it if need be; there from setup to the end of training.
  std::function<std::optional<long>()> count_training = {};
  /// Writes a file now, with what the open fit knows of its data; there while one is open.
  std::function<void(std::filesystem::path const&)> write = {};
  bool resuming = false;            ///< a file is being loaded: it holds more than this run does until all of it is
  bool training_is_open = false;    ///< the training loader is there
  bool validation_is_open = false;  ///< those of validation are
  int training_since = 0;           ///< epoch in which the training loader was asked for
  int validation_since = 0;         ///< epoch whose validation was the first with these loaders
};

}  // namespace fulgurite::loop
