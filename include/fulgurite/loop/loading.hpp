#pragma once
// Part of a run's state: its loaders, as far as they are asked for more than once.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/core/function_ref.hpp>

namespace fulgurite::loop {

struct Loading {
  /// Asks the training loader for its size, loading it if need be; there from setup to the end of training.
  FunctionRef<std::optional<long>()> count_training{};
  /// Writes a file now, with what the open fit knows of its data; there while one is open.
  FunctionRef<void(std::filesystem::path const&)> write{};
  /// The names of the loaders of the last fit, for its files.
  std::vector<std::string> (*loaders)() = nullptr;
  bool fit_is_open = false;         ///< from its first check to its end
  bool forgets_place = false;       ///< a loader of the fit says nothing of where it is
  bool resuming = false;            ///< a file is being loaded: it holds more than this run does until all of it is
  bool training_is_open = false;    ///< the training loader is there
  bool validation_is_open = false;  ///< those of validation are
  int training_since = 0;           ///< epoch in which the training loader was asked for
  int validation_since = 0;         ///< epoch whose validation was the first with these loaders
};

/// While it lives, a fit is open, however it ends.
class FitIsOpen {
 public:
  explicit FitIsOpen(Loading& loading) : loading_(loading) { loading_.fit_is_open = true; }
  FitIsOpen(FitIsOpen const&) = delete;
  ~FitIsOpen() { loading_.fit_is_open = false; }

 private:
  Loading& loading_;
};

}  // namespace fulgurite::loop
