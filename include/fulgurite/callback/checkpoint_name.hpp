#pragma once
// What the files of a ModelCheckpoint are called: a template, filled with the epoch, the step and metrics.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::checkpointing {

// When a ModelCheckpoint is due: after so many steps, epochs or seconds.

/// How often files are due: after so many steps or epochs, where 0 means never, or after so many seconds.
struct Rhythm {
  long steps = 0;
  long epochs = 0;
  std::optional<double> seconds = std::nullopt;
};

/// Keeps count of what has passed since files were last due.
class Timing {
 public:
  explicit Timing(Rhythm rhythm) : rhythm_(rhythm) {}

  /// Training begins: steps and time count from here. A run that goes on has waited for its next file before.
  void begin(Context const& ctx, bool goes_on);

  /// How long the next file has been waited for by now.
  void look(Context const& ctx);

  /// Whether that epoch, counted from 0, ends with a file.
  bool by_epoch(int epoch) const;

  /// Whether an n-th step was taken since this was last asked. A batch may hold several steps.
  bool by_steps(Context const& ctx);

  /// Whether so much time has passed since this last was the case.
  bool by_time(Context const& ctx);

  /// Whether a step that was taken after the end of its batch makes a file due: a stop, or skip_epoch, makes the step
  /// of an open window then, so that the end of a batch is not the only place to look.
  bool by_flushed_step(Context const& ctx);

  /// Of the last file by time not the moment is saved, but how long ago it was at the last batch: a run that is stopped
  /// again and again before its file is due would else never leave one. Where a fit goes back, no time is put back.
  void state(auto& archive);

 private:
  Rhythm rhythm_;
  double time_checked_ = 0;
  double waited_ = 0;  ///< seconds from then to the last batch
  long looked_ = 0;    ///< the step at which it was last asked whether an n-th was taken
};

}  // namespace fulgurite::checkpointing

namespace fulgurite {

// The options of a ModelCheckpoint, with Lightning's names, and the one function that checks them.

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
Rhythm checked(ModelCheckpointOptions const& options, bool watches);

}  // namespace checkpointing

// Makes names of checkpoint files from a template: "{epoch:02d}-{val/loss:.2f}" becomes "epoch=03-val/loss=0.12".

/// A template with fields {name} or {name:format}. The format is Python's: [0][width][.digits][d|e|f|g]. A field
/// becomes "name=value", or the value alone.
class FileName {
 public:
  /// The value of a field. Epoch and step are whole numbers, metrics are not; a metric without a value yet is the whole
  /// number 0.
  struct Value {
    double number = 0;
    bool whole = true;
  };

  FileName(std::string_view pattern, bool insert_names);

  /// Calls f(name) for each field.
  template <class F>
  void each_field(F&& f) const {
    for (auto const& part : parts_)
      if (!part.name.empty()) f(part.name);
  }
  /// Whether the field's format is for whole numbers. For a metric Python would refuse it when the file is due; this is
  /// asked when the run starts.
  bool wants_whole(std::string_view name) const;

  /// The name; value_of(name) returns the Value of a field.
  template <class F>
  std::string text(F&& value_of) const {
    std::string out;
    for (auto const& part : parts_) {
      out += part.literal;
      if (part.name.empty()) continue;
      if (insert_names_) out += part.name + "=";
      out += formatted(value_of(part.name), part.format);
    }
    return out;
  }

  /// Whether names of this template may begin with that folder, as "epoch=3-val" where it is "{epoch}-{val/loss}".
  bool may_lie_in(std::string_view folder) const;

 private:
  static constexpr char any = '\0';  ///< in an outline: the value of a field, which has no '/'
  static bool matches(std::string_view outline, std::string_view text);
  struct Format {
    bool zeros = false;
    int width = 0;
    std::optional<int> digits = std::nullopt;
    char kind = '\0';
  };
  struct Part {
    std::string literal;
    std::string name;
    Format format;
  };

  [[noreturn]] static void refuse(std::string const& why) {
    throw Error("fulgurite.callback.checkpoint_name", "a checkpoint's file name: " + why);
  }

  static Format parsed(std::string_view text);

  static std::string formatted(Value value, Format const& format);

  std::vector<Part> parts_;
  bool insert_names_;
};

}  // namespace fulgurite

namespace fulgurite::checkpointing {

// The names of files in a folder of checkpoints: which are allowed, which are free, and which belong to the folder.

/// Explains why a file of that name would not lie in the folder; empty where it would.
std::string why_no_name(std::string const& name, std::string const& extension,
                        std::filesystem::path const& folder = {});

/// The name of a file in a folder that several programs may share: it names the program and the model, so that no fit
/// resumes from the file of another one.
std::string name_of_run(std::string const& prefix, std::string_view model);

/// The first path that is free among folder/name.ext, folder/name-v1.ext, folder/name-v2.ext, ... `taken(path)` says
/// that one is not free; `ours` always is.
template <class Taken>
std::filesystem::path unused_name(std::filesystem::path const& folder, std::string const& name,
                                  std::string const& extension, std::filesystem::path const& ours, Taken&& taken) {
  auto path = folder / (name + extension);
  for (int version = 1; path != ours && taken(path); ++version)
    path = folder / (name + "-v" + std::to_string(version) + extension);
  return path;
}

/// All files with that ending in the folder and below it.
std::vector<std::filesystem::path> files_of(std::filesystem::path const& folder, std::string const& extension);

/// Whether a file lies in the folder or below it. Only such files may be deleted to make room.
bool inside(std::filesystem::path const& folder, std::filesystem::path const& file);

/// Whether last is not there, or is older than the file that it is to lead to, or to be a copy of.
bool is_behind(std::filesystem::path const& last, std::filesystem::path const& file);

/// Removes a file that is no longer needed, and the folders that its name has made, as "{val/loss}" does, where they
/// are empty.
void make_room(CheckpointFiles& files, std::filesystem::path const& folder, std::filesystem::path const& file);

/// The name of a file, without version and extension. The Error [fulgurite.callback.checkpoint_name] says, when the
/// callback is made, where a file of such a name would not lie in the folder, and when a run is set up, which field has
/// no value.
class Name {
 public:
  explicit Name(ModelCheckpointOptions const& options);

  /// Whether the names contain values of metrics.
  bool tells_metrics() const;

  /// Whether the run has a value for each field.
  void check(Context const& ctx) const;

  /// All files in the folder, and in those below it that such names make. Other folders there are of others.
  std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder, std::string const& extension) const;

  /// The name at this moment, with that epoch, and the values of metrics, which are the same on all ranks. That of
  /// `watched` is the one that it has as it is watched; a metric without a value is 0.
  std::string text(Context const& ctx, int epoch, WatchedMetric const& watched) const;

 private:
  static bool is_count(std::string const& field) { return field == "epoch" || field == "step"; }

  FileName template_;
};

}  // namespace fulgurite::checkpointing

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/checkpoint_name.ipp>
#endif
