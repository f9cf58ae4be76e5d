#pragma once
// The file names of a ModelCheckpoint: a template that is filled with the epoch, the step and metrics.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>

namespace fulgurite {

// The options of a ModelCheckpoint, with Lightning's names.

/// Whether each save is also available under the name "last": `.save_last = true` makes a copy, `SaveLast::link` a
/// symbolic link to the file just saved (for local disks).
struct SaveLast {
  enum Kind : std::uint8_t { no, copy, link };
  Kind kind = no;
  constexpr SaveLast(bool on = false) : kind(on ? copy : no) {}
  constexpr SaveLast(Kind what) : kind(what) {}
};

/// Options of ModelCheckpoint: when files are written, their names, and which of them are kept.
struct ModelCheckpointOptions {
  /// Not given: `checkpoints` in the first logger's folder, else in default_root_dir.
  std::filesystem::path dirpath = {};
  std::string filename =
      "{epoch}-{step}";         ///< fields {epoch}, {step}, {any/metric:.2f}; a '/' in a name makes a folder
  MonitorOption monitor = {};   ///< refused: the metric is the first argument, ModelCheckpoint{Net::val_loss, {...}}
  ModeOption mode = Mode::min;  ///< for an accuracy: Mode::max
  int save_top_k = 1;           ///< keep the k best; -1: all, 0: none. Without a metric, 1 keeps the latest
  /// Save each file also as "last", and again when training ends, whatever save_top_k is. A link is only updated when a
  /// file is saved.
  SaveLast save_last = false;
  /// Save after every so many optimizer steps; 0: never. At most one of this and the next two may be given; if none is,
  /// every epoch is saved.
  std::optional<long> every_n_train_steps = std::nullopt;
  std::optional<long> every_n_epochs = std::nullopt;  ///< save after every so many epochs; 0: never
  /// Save once this much time has passed since the last file.
  TimeSpan train_time_interval = std::nullopt;
  std::optional<bool> save_on_train_epoch_end =
      std::nullopt;  ///< not given: true if validation runs once an epoch, or never
  /// Save only the weights, what the model saves with them, and the position in the run. Such files are smaller, but no
  /// fit can resume from them.
  bool save_weights_only = false;
  bool save_on_exception = false;          ///< save again when an exception ends the fit
  bool auto_insert_metric_name = true;     ///< "epoch=3" instead of "3"
  bool enable_version_counter = true;      ///< do not overwrite a file from elsewhere: append "-v1" to the name
  bool verbose = false;                    ///< print saved files to stderr
  std::string extension = ".safetensors";  ///< including the dot
};

namespace checkpointing {

// When a ModelCheckpoint is due: after so many steps, epochs or seconds.

/// How often files are due: after so many steps or epochs (0: never), or after so many seconds.
struct Rhythm {
  long steps = 0;
  long epochs = 0;
  std::optional<double> seconds = std::nullopt;
};

/// Tracks the steps and the time since files were last due.
class Timing {
 public:
  explicit Timing(Rhythm rhythm) : rhythm_(rhythm) {}

  /// Training begins: steps and time count from here. For a resumed run, the time that it had already waited for its
  /// next file is added.
  void begin(Context const& ctx, bool is_resumed);

  /// Updates the time waited for the next file.
  void look(Context const& ctx);

  /// True if that epoch, counted from 0, ends with a file.
  bool by_epoch(int epoch) const;

  /// True if an n-th step was taken since the last call. A batch may take several steps.
  bool by_steps(Context const& ctx);

  /// True if the interval has passed since this last returned true.
  bool by_time(Context const& ctx);

  /// True if a step that was taken after its batch had ended makes a file due. A stop or skip_epoch takes the step of
  /// an open accumulation window at that time, so the end of a batch is not the only place to check.
  bool by_flushed_step(Context const& ctx);

  /// Saves, for files by time, how long ago the last one was as of the last batch, not its time of day. Otherwise a run
  /// that is stopped again and again before its file is due would never write one. If a fit rolls back, the time is not
  /// set back.
  void state(auto& archive);

 private:
  Rhythm rhythm_;
  double time_checked_ = 0;
  double waited_ = 0;  ///< seconds from `time_checked_` to the last batch
  long looked_ = 0;    ///< the step at which by_steps was last called
};

/// Saves the options for comparison with those of a program that resumes. The folder and the parts of the callback's
/// key are compared elsewhere.
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

/// Checks the options, and throws one Error that lists everything that is wrong with them.
Rhythm checked(ModelCheckpointOptions const& options, bool watches);

// The names of files in a folder of checkpoints: which are allowed, which are free, and which belong to the folder.

/// Returns why a file of that name would not be inside of the folder; empty if it would.
std::string why_no_name(std::string const& name, std::string const& extension,
                        std::filesystem::path const& folder = {});

/// A file name for a folder that several programs may share. It contains the program and the model, so that no fit
/// resumes from another program's file.
std::string name_of_run(std::string const& prefix, std::string_view model);

/// The first free path of folder/name.ext, folder/name-v1.ext, folder/name-v2.ext, ... `taken(path)` returns true if a
/// path is not free; `ours` always is free.
std::filesystem::path unused_name(std::filesystem::path const& folder, std::string const& name,
                                  std::string const& extension, std::filesystem::path const& ours, auto&& taken) {
  auto path = folder / (name + extension);
  for (int version = 1; path != ours && taken(path); ++version)
    path = folder / (name + "-v" + std::to_string(version) + extension);
  return path;
}

/// All files with that extension in the folder and below it.
std::vector<std::filesystem::path> files_of(std::filesystem::path const& folder, std::string const& extension);

/// True if a file is in the folder or below it. Only such files may be deleted to make room.
bool inside(std::filesystem::path const& folder, std::filesystem::path const& file);

/// True if "last" does not exist, or is older than the file that it should link to or be a copy of.
bool is_behind(std::filesystem::path const& last, std::filesystem::path const& file);

/// Removes a file that is no longer needed, and the folders that its name has created, as "{val/loss}" does, if they
/// are empty.
void make_room(CheckpointFiles& files, std::filesystem::path const& folder, std::filesystem::path const& file);

/// The template for file names, without version and extension: "{epoch:02d}-{val/loss:.2f}" becomes
/// "epoch=03-val/loss=0.12". A field {name} or {name:format} becomes "name=value", or the value alone; the format is
/// Python's: [0][width][.digits][d|e|f|g]. The Error [fulgurite.callback.checkpoint_name] is thrown by the constructor
/// if such a file would not be inside of the folder, and in setup if a field has no value.
class Name {
 public:
  explicit Name(ModelCheckpointOptions const& options);

  /// True if the names contain values of metrics.
  bool has_metrics() const;

  /// Throws if the run has no value for a field, or if a metric has the format of a whole number, which Python would
  /// refuse when the file is due.
  void check(Context const& ctx) const;

  /// All files in the folder, and in those of its subfolders that such names create. Other subfolders belong to others.
  std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder, std::string const& extension) const;

  /// The current name, with that epoch and the values of metrics, which are the same on all ranks. For `watched` the
  /// value is the one that is watched (its last value or its mean); a metric without a value is 0.
  std::string text(Context const& ctx, int epoch, WatchedMetric const& watched) const;

  /// The value of a field. Epoch and step are whole numbers, metrics are not; a metric that has no value yet counts as
  /// the whole number 0.
  struct Value {
    double number = 0;
    bool whole = true;
  };
  /// The name with the values that `value_of(field)` returns.
  std::string filled(FunctionRef<Value(std::string const&)> value_of) const;

  struct Format {
    bool zeros = false;
    int width = 0;
    std::optional<int> digits = std::nullopt;
    char kind = '\0';
  };

 private:
  /// A text, and the field behind it, if it has a name.
  struct Part {
    std::string literal;
    std::string field;
    Format format;
    bool is_metric() const;
  };

  /// True if names may begin with that folder, as those of "{epoch}-{val/loss}" begin with "epoch=3-val".
  bool may_lie_in(std::string_view folder) const;

  std::vector<Part> parts_{};
  bool insert_names_;
};

}  // namespace checkpointing
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/checkpoint_name.ipp>
#endif
