#pragma once
// The options of a ModelCheckpoint, with Lightning's names, and the one function that checks them.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <fulgurite/callback/checkpoint_timing.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/metric_text.hpp>

namespace fulgurite {

/// Whether each save also gets the name "last": `.save_last = true` makes a copy, `SaveLast::link` a symbolic link to
/// the file just saved, for local disks.
struct SaveLast {
  enum Kind : std::uint8_t { no, copy, link };
  Kind kind = no;
  constexpr SaveLast(bool on = false) : kind(on ? copy : no) {}
  constexpr SaveLast(Kind what) : kind(what) {}
};

/// When files are written, what they are called, and which of them stay.
struct ModelCheckpointOptions {
  /// Not given: `checkpoints` in the first logger's folder, else in default_root_dir.
  std::filesystem::path dirpath = {};
  std::string filename =
      "{epoch}-{step}";         ///< fields {epoch}, {step}, {any/metric:.2f}; a '/' in a name makes a folder
  MonitorOption monitor = {};   ///< refused: the metric is the first argument, ModelCheckpoint{Net::val_loss, {...}}
  ModeOption mode = Mode::min;  ///< for an accuracy: Mode::max
  int save_top_k = 1;           ///< the k best; -1: all, 0: none. Without a metric 1 keeps the latest
  /// Save each file also as "last", and once more when training ends, whatever save_top_k is. A link follows saves
  /// alone.
  SaveLast save_last = false;
  /// Save after every so many optimizer steps; 0: never. At most one of this and the next two is given; none: every
  /// epoch.
  std::optional<long> every_n_train_steps = std::nullopt;
  std::optional<long> every_n_epochs = std::nullopt;  ///< save after every so many epochs; 0: never
  /// Save once so much time has passed since the last file.
  std::optional<std::chrono::duration<double>> train_time_interval = std::nullopt;
  std::optional<bool> save_on_train_epoch_end =
      std::nullopt;  ///< not given: where validation runs once an epoch, or never
  /// Keep the weights, what the model saves beside them, and where in the run it was. Such files are smaller, and no
  /// fit can go on from them.
  bool save_weights_only = false;
  bool save_on_exception = false;       ///< save once more when an exception ends the fit
  bool auto_insert_metric_name = true;  ///< "epoch=3" instead of "3"
  bool enable_version_counter = true;   ///< a file somebody else left is not overwritten: "-v1" is appended to the name
  bool verbose = false;                 ///< write to stderr what is saved
  std::string extension = ".safetensors";  ///< with its point
};

namespace checkpointing {

/// Saves the options, to be compared with those of a program that resumes; the folder and what is in the callback's key
/// are compared elsewhere.
void options_state(ModelCheckpointOptions const& options, auto& archive) {
  auto const last = options.save_last.kind;
  archive.option("filename", options.filename).option("save_top_k", options.save_top_k);
  archive.option("save_last", std::string(last == SaveLast::no ? "no" : last == SaveLast::copy ? "copy" : "link"));
  archive.option("save_on_train_epoch_end", options.save_on_train_epoch_end);
  archive.option("save_weights_only", options.save_weights_only);
  archive.option("save_on_exception", options.save_on_exception);
  archive.option("auto_insert_metric_name", options.auto_insert_metric_name);
  archive.option("enable_version_counter", options.enable_version_counter).option("extension", options.extension);
}

/// Checks the options, and says in one Error what they cannot mean.
inline Rhythm checked(ModelCheckpointOptions const& options, bool watches) {
  auto const refuse = [](std::string const& why) {
    throw Error("fulgurite.callback.checkpoint_options", "ModelCheckpoint: " + why);
  };
  if (options.save_top_k < -1) refuse("save_top_k is -1 (all), 0 (none) or a count");
  if (!watches && options.save_top_k > 1)
    refuse("save_top_k = " + std::to_string(options.save_top_k) + " needs a metric to rank by");
  if (options.save_last.kind == SaveLast::link && options.save_top_k != 0 && options.filename == "last" &&
      !options.enable_version_counter)
    refuse("a link called last cannot lead to a file called last: give another filename, or leave "
           "enable_version_counter on");
  auto const& time = options.train_time_interval;
  Rhythm const rhythm{options.every_n_train_steps.value_or(0),
                      options.every_n_epochs.value_or(options.every_n_train_steps || time ? 0 : 1),
                      time ? std::optional(time->count()) : std::nullopt};
  if (rhythm.steps < 0 || rhythm.epochs < 0 || (time && !(time->count() >= 0)))
    refuse("every_n_train_steps, every_n_epochs and train_time_interval are not negative");
  if ((rhythm.steps > 0) + (rhythm.epochs > 0) + time.has_value() > 1)
    refuse("give one of every_n_train_steps, every_n_epochs and train_time_interval: use two ModelCheckpoints for two "
           "rhythms");
  return rhythm;
}

}  // namespace checkpointing
}  // namespace fulgurite
