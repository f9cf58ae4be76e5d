#pragma once
// What a ModelCheckpoint can be told, with Lightning's names, and the one check of it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// Whether each save also goes by the name "last": `.save_last = true`, a copy, or `SaveLast::link`, a symbolic link to the file just
/// saved, for local disks.
struct SaveLast {
  enum Kind : std::uint8_t { no, copy, link };
  Kind kind = no;
  constexpr SaveLast(bool on = false) : kind(on ? copy : no) {}
  constexpr SaveLast(Kind what) : kind(what) {}
};

/// When files are written, how they are called, and which of them stay.
struct ModelCheckpointOptions {
  std::string filename = "{epoch}-{step}";  ///< fields {epoch}, {step}, {any/metric:.2f}; a '/' in a name makes a folder
  Mode mode = Mode::min;                    ///< for an accuracy: Mode::max
  int save_top_k = 1;                       ///< the k best; -1: all, 0: none. Without a metric 1 keeps the latest
  SaveLast save_last = false;               ///< each save also as "last", and the end of training
  std::optional<long> every_n_train_steps = std::nullopt;  ///< at most one of these three; none given: every epoch; 0: never
  std::optional<long> every_n_epochs = std::nullopt;
  std::optional<std::chrono::duration<double>> train_time_interval = std::nullopt;
  std::optional<bool> save_on_train_epoch_end = std::nullopt;  ///< not given: where validation runs once an epoch, or never
  bool save_weights_only = false;       ///< smaller files, from which no run can go on
  bool save_on_exception = false;
  bool auto_insert_metric_name = true;  ///< "epoch=3" instead of "3"
  bool enable_version_counter = true;   ///< a file somebody else left is not overwritten: "-v1" is appended to the name
  bool verbose = false;                 ///< say on stderr what is saved
  std::string extension = ".safetensors";
};

namespace checkpointing {

/// The rhythm that the options ask for: after how many steps, epochs (0: never), or seconds.
struct Rhythm {
  long steps = 0;
  long epochs = 0;
  std::optional<double> seconds = std::nullopt;
};

/// Throws one Error that says what the options cannot mean.
inline Rhythm checked(ModelCheckpointOptions const& options, bool watches) {
  auto const refuse = [](std::string const& why) { throw Error("fulgurite.callback.checkpoint_options", "ModelCheckpoint: " + why); };
  if (options.save_top_k < -1) refuse("save_top_k is -1 (all), 0 (none) or a count");
  if (!watches && options.save_top_k > 1) refuse("save_top_k = " + std::to_string(options.save_top_k) + " needs a metric to rank by");
  auto const& time = options.train_time_interval;
  Rhythm const rhythm{options.every_n_train_steps.value_or(0), options.every_n_epochs.value_or(options.every_n_train_steps || time ? 0 : 1),
                      time ? std::optional(time->count()) : std::nullopt};
  if (rhythm.steps < 0 || rhythm.epochs < 0 || (time && !(time->count() >= 0)))
    refuse("every_n_train_steps, every_n_epochs and train_time_interval are not negative");
  if ((rhythm.steps > 0) + (rhythm.epochs > 0) + time.has_value() > 1)
    refuse("give one of every_n_train_steps, every_n_epochs and train_time_interval: use two ModelCheckpoints for two rhythms");
  return rhythm;
}

}  // namespace checkpointing
}  // namespace fulgurite
