#pragma once
// The checkpoint files of a run: which callbacks rely on them, and what a request may do with them when it runs.

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// Lightning's ckpt_path: the last argument of fit, validate, test and predict.
///
///     trainer.fit(net, data, CkptPath{"last"});
///
/// "last" is the newest file that the trainer's callbacks have written; if there is none, a warning is given and the
/// run starts from the beginning. "best" is the best file of the trainer's first ModelCheckpoint. "hpc" is the file
/// with the highest number that was written for a scheduler which restarts the run. Anything else is the path of a
/// file. A fit resumes from the file as if it had not stopped. An evaluation loads the weights (also from a file that
/// has only weights), and the state of the model and the data module.
class CkptPath {
 public:
  explicit CkptPath(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class R>
class Snapshot;

namespace refusal {

/// `trainer.fit(net, data, {.ckpt_path = "last"})`, as in Lightning; refused. `{}` does not convert to it.
struct CkptPathOption {
  struct Text {
    template <std::convertible_to<std::filesystem::path> T>
    constexpr Text(T const&) {}
  };
  Text ckpt_path;
};

}  // namespace refusal

/// One finished value of an evaluation, or of a row for the loggers, under its reported name.
struct MetricValue {
  std::string name;
  double value;
};

/// The results of a run: `trainer.outcome().best_file`. Callbacks set them, and the last line of a fit shows them. Of
/// several ModelCheckpoints the trainer's first one that ranks files by a metric sets the best.
struct Outcome {
  std::string best_metric = {};       ///< the metric as it is watched: "vl.last()"
  std::string best_metric_name = {};  ///< the name of the metric itself: "vl"
  std::optional<double> best_value = std::nullopt;
  int best_epoch = 0;
  std::filesystem::path best_file = {};
  /// The first ModelCheckpoint that ranks files in the current fit, and whether it has a best one. Until then another
  /// one sets these; later it would mix its file with their metric.
  void const* best_by = nullptr;
  bool first_has_best = false;
  /// The file that a ModelCheckpoint has written last; files that the program saves itself are not named.
  std::filesystem::path last_file = {};
  std::filesystem::path metrics_file = {};
  /// What ended the last fit: "max_epochs = 10", "EarlyStopping: val/loss = ...", the reason of a stop request, or
  /// "close() of the open fit". Empty while the fit runs, and after an exception.
  std::string ended_by = {};

  Outcome();
  FULGURITE_COPIES(Outcome);

  /// The results without files that do not exist. A logger makes its file with the first row, and there may be none. A
  /// run that was resumed and trained nothing more has the results of its file, whose folder may have moved since.
  Outcome with_present_files() const;

  /// What a file holds: it is the same for a resumed and for an unbroken run, whatever files exist.
  void state(auto& archive);
};

/// The argument of callback functions that list files of earlier runs: `last_checkpoints(search)` and
/// `hpc_checkpoints(search)`, which are called before setup. Without an argument they list files in known folders.
struct CheckpointSearch {
  std::filesystem::path root = {};  ///< default_root_dir
  std::string model = {};           ///< the name of the model's type
  /// The folders of all runs that the trainer's loggers know; nullopt if it has no logger.
  std::optional<std::vector<std::filesystem::path>> runs = std::nullopt;
};

/// Keeps track of which callbacks need which file: a file is removed only when its last holder gives it up.
class HeldFiles {
 public:
  /// The address of a callback; nullptr stands for the run itself, for files that the program requested by name.
  using Holder = void const*;

  void hold(std::filesystem::path const& file, Holder holder);
  void give_up(std::filesystem::path const& file, Holder holder);
  /// True if another holder needs the file.
  bool by_others(std::filesystem::path const& file, Holder holder) const;

  /// Records that a fit of this program resumes from this file, which the program has named. Then the file is never
  /// removed, since the same program may be restarted and name it again. It may be overwritten.
  void begins_with(std::filesystem::path const& file) { named_.insert(key(file)); }
  bool is_begun_with(std::filesystem::path const& file) const;

  /// The key of a file, however its folder is written. A link has its own key, not that of its target.
  static std::filesystem::path key(std::filesystem::path const& file);

 private:
  std::map<std::filesystem::path, std::set<Holder>> holders_{};
  std::set<std::filesystem::path> named_{};
};

class CheckpointFiles;
namespace loop {
struct Due;
}

/// A callback's request for the next safe point: to write a file with a given name, or to run a function, which then
/// chooses the names of its files. `ctx.request_checkpoint("step.safetensors");`
struct CheckpointRequest {
  std::filesystem::path path = {};                 ///< empty if `act` chooses the names
  std::function<void(CheckpointFiles&)> act = {};  ///< runs instead of writing `path`
  HeldFiles::Holder holder = nullptr;              ///< holds the written files

  CheckpointRequest(std::filesystem::path file) : path(std::move(file)) {}
  CheckpointRequest(char const* file) : path(file) {}
  CheckpointRequest(std::string const& file) : path(file) {}
  CheckpointRequest(HeldFiles::Holder who, std::function<void(CheckpointFiles&)> what);
  FULGURITE_COPIES(CheckpointRequest);
};

/// The operations on files that a request may use at its safe point. On ranks other than 0 they find rank 0's names,
/// and write or remove nothing.
class CheckpointFiles {
 public:
  /// A file to be written. `is_new`: only if no such file exists by then.
  struct Planned {
    std::filesystem::path file;
    bool is_new;
  };
  using Then = std::function<void(CheckpointFiles&)>;
  /// What the run does for its requests. A function that is not set is not needed.
  struct Means {
    bool writes;
    FunctionRef<void(std::filesystem::path const& file, bool weights_only)> write;
    std::optional<bool> validation_follows = std::nullopt;
    FunctionRef<bool(bool mine)> of_first_rank = {};  ///< all ranks call the same functions, and take part in writing
    FunctionRef<void(std::span<Planned const>, bool weights_only, Then)> write_later = {};
    FunctionRef<void(std::filesystem::path const& from, std::filesystem::path const& to)> rename = {};
    FunctionRef<bool(std::filesystem::path const& file)> remove = {};
  };

  /// `due`: the later requests. The arguments, and what `means` calls, must outlive this object.
  CheckpointFiles(HeldFiles& held, HeldFiles::Holder holder, loop::Due const& due, Means const& means);

  bool writes() const { return means_.writes; }
  /// After a batch: true if a validation comes next, which scores the weights of a file written now; nullopt: unknown.
  std::optional<bool> validation_follows() const { return means_.validation_follows; }
  /// True if another holder needs the file, or a later request names it.
  bool of_others(std::filesystem::path const& file) const;
  /// True if the name cannot be used: another holder needs that file, or it exists.
  bool taken(std::filesystem::path const& file) const;
  /// Writes the weights and the state of the run. `weights_only`: of that only the model's own and the run's progress.
  void write(std::filesystem::path const& file, bool weights_only = false);
  /// Returns rank 0's value of `mine`.
  bool of_first_rank(bool mine) const;
  /// True if files can be written while the run continues.
  bool later() const { return writes() && means_.write_later; }
  /// Copies the current state for the files. `then(files)` is called on this thread after they were written, or could
  /// not be: its `files.write` of one of them reports an error as if it wrote the file at that time.
  void write_later(std::span<Planned const> planned, bool weights_only, Then then);
  /// Must be called when a file was renamed after the state was copied.
  void renamed(std::filesystem::path const& from, std::filesystem::path const& to) const;
  /// Makes a file by `make(file)`, such as a link to another file. Throws FileExists on all ranks if the file exists.
  template <class Make>
  void make(std::filesystem::path const& file, Make&& make) {
    bool exists = false;
    try {
      if (writes()) make(file);
    } catch (FileExists const&) { exists = true; }
    if (of_first_rank(exists)) throw FileExists(file);
    held_.hold(file, holder_);
  }
  /// The holder of this request no longer needs the file. It is removed unless another holder needs it, or this program
  /// has named it to resume from. Returns true if it was removed.
  bool give_up(std::filesystem::path const& file);

 private:
  HeldFiles& held_;
  HeldFiles::Holder holder_;
  loop::Due const& due_;
  Means means_;
};

namespace loop {

/// True for the result of snapshot(trainer).
template <class T>
inline constexpr bool is_snapshot = is_of<Snapshot, T>;

/// Stands for a CkptPath if none is given, so that a program that never resumes contains no code for it.
struct FromScratch {};
template <class From>
concept StartingPoint =
    std::same_as<From, FromScratch> || is_snapshot<From> || std::convertible_to<From, std::optional<CkptPath>>;

template <class... Args>
inline constexpr bool names_file =
    ((is_snapshot<std::remove_cvref_t<Args>> || std::is_same_v<std::remove_cvref_t<Args>, CkptPath> ||
      std::is_same_v<std::remove_cvref_t<Args>, std::optional<CkptPath>>) ||
     ...);

/// True if a fit without a CkptPath looks for a file of this callback to resume from.
template <class C>
inline constexpr bool resumes_fit = requires { requires C::resumes_fit; };
FULGURITE_OF_ARGUMENTS(any_resumes_fit, Pack, resumes_fit<Ts> || ...);

/// The starting point of a call as one type.
template <class From>
std::optional<CkptPath> path_of(From const& from) {
  if constexpr (std::same_as<From, FromScratch> || is_snapshot<From>) return std::nullopt;
  else return from;
}

/// True if a callback lists files by the function of that name, with or without the search argument.
template <class C>
concept NamesLast = hook::last_checkpoints::accepts<C, CheckpointSearch const> || hook::last_checkpoints::accepts<C>;
template <class C>
concept NamesHpc = hook::hpc_checkpoints::accepts<C, CheckpointSearch const> || hook::hpc_checkpoints::accepts<C>;
/// True if a callback has `best_model_path()`, which returns the best file that it has written.
template <class C>
concept NamesBest = requires(C& callback) { std::filesystem::path(callback.best_model_path()); };

/// Part of a run's state: which listeners were notified of an event that failed half-way, since a resumed fit notifies
/// only the others. Empty unless a hook has thrown.
struct Notified {
  std::string event = {};            ///< the name of the hook; empty: none has failed
  std::vector<std::string> by = {};  ///< state names of the notified listeners, including model and strategy

  Notified();
  FULGURITE_COPIES(Notified);

  template <class Hook>
  bool failed() const {
    return is(Hook::name());
  }
  bool is(std::string_view hook) const { return event == hook; }
  bool contains(std::string_view name) const;

  void state(auto& archive);
};

// Part of a run's state: requests of hooks and steps that the loops have not carried out yet.

/// A row that is written only after its steps were checked.
struct HeldRow {
  std::vector<MetricValue> cells;
  long step;
};

/// The open accumulation window.
struct WindowRows {
  long batches = -1;  ///< batches that were finished when it began
  long before = 0;    ///< rows that were written before it
};

/// A monitor's request to end training. It may withdraw it while the minima are not met.
struct MonitorStop {
  std::string who = {};  ///< the name of the callback, see Context::name_of
  std::string why = {};  ///< the reason, for the last line of the fit
  void state(auto& archive);
};

/// A request to end training at the end of a step, once the minima are met. Saved and restored as a whole.
struct StopRequest {
  bool holds = false;    ///< in effect on all ranks: `asked` is true, or a monitor requests a stop
  bool asked = false;    ///< a hook, the program or a time limit requested it: it cannot be withdrawn
  bool waits = false;    ///< with several ranks: requested here, and sent to the others with the next gradients
  bool by_time = false;  ///< only max_time or a Timer requested it: if the limit is raised, training continues
  std::string why = {};  ///< the reason that was given first
  std::vector<MonitorStop> monitors{};

  StopRequest();
  FULGURITE_COPIES(StopRequest);

  /// Sets or withdraws a monitor's request.
  void set_monitor(MonitorStop const& request, bool wanted);
  /// Removes what a callback, or a part of it, has requested.
  void withdraw(std::string const& callback);
  /// The part that a file holds: time limits are checked again on resuming.
  StopRequest lasting() const;
};

struct Due {
  StopRequest stop{};
  bool stop_of_file = false;      ///< the file of this resumed run holds a stop, and the limits are unchanged
  StopRequest stop_before_cut{};  ///< the part that a file holds, before hooks were notified of the end of a cut epoch
  std::vector<std::string> other_monitors{};  ///< callbacks with other options than in the file, or gone
  bool statistics_pass = false;               ///< a pass over the training data was requested, before on_train_end
  std::vector<CheckpointRequest> requests{};
  std::vector<CheckpointRequest> now{};    ///< the requests that are being carried out, in order
  std::size_t done = 0;                    ///< how many of these are done
  std::vector<CheckpointRequest> aside{};  ///< requests of an open window, while a validation makes its own
  std::vector<MetricValue> posted{};       ///< rows that callbacks posted for the loggers
  std::vector<HeldRow> held_rows{};        ///< rows of replayed steps since the last check

  Notified notified{};  ///< of a failed event: the other listeners are not notified yet

  long rows = 0;  ///< rows that loggers have received
  WindowRows window{};

  /// Begins an accumulation window after so many batches. Rows that wait belong to earlier windows.
  void begin_window(long batches);
  /// The rows since the window began, which will be written again if the window is repeated.
  long rows_of_window(long batches) const;

  /// True if a later request names the file.
  bool awaits(std::filesystem::path const& file) const;

  void set_aside();
  void take_back();
};

/// The backend can copy the state of a run, and write files from the copy in another thread.
template <class B>
concept WritesLater = requires { typename B::Background; };

/// For backends that cannot.
template <class B>
struct FilesUnderWay {};

struct FilesInWork {
  HeldFiles::Holder holder = nullptr;
  CheckpointFiles::Then then = nullptr;  ///< not empty while files are being written
  Outcome before{};                      ///< the results before these files were named: those on the disk meanwhile
};
template <WritesLater B>
struct FilesUnderWay<B> : FilesInWork {
  typename B::Background writer{};
};

/// True if a callback of the pack writes files.
FULGURITE_OF_ARGUMENTS(any_names_files, Pack, (NamesLast<Ts> || NamesHpc<Ts>) || ...);

/// Between steps: true if the thread that writes files has finished.
template <class Pack, class R>
[[gnu::always_inline]] inline bool answer_waits([[maybe_unused]] R& run) {
  if constexpr (WritesLater<typename R::Key::Backend> && any_names_files<Pack>)
    return run.under_way.then && run.under_way.writer.done() && !run.facts.accumulating;
  else return false;
}

/// Implements finish_files, for a given backend that WritesLater.
template <class B>
void finish(FilesUnderWay<B>& now, HeldFiles& held, Due const& due) {
  now.writer.wait();
  auto const then = std::exchange(now.then, nullptr);
  auto const write = [&now](std::filesystem::path const& file, bool) { now.writer.write(file); };
  auto const rename = [&now](std::filesystem::path const& from, std::filesystem::path const& to) {
    now.writer.image().rename(from, to);
  };
  auto const remove = [&now](std::filesystem::path const& file) { return now.writer.remove(file); };
  CheckpointFiles files(held, now.holder, due, {.writes = true, .write = write, .rename = rename, .remove = remove});
  struct LetsGo {  // releases what `then` has removed, also if it fails later
    typename B::Background& writer;
    ~LetsGo() { writer.let_go(); }
  } const lets_go{now.writer};
  then(files);
}

/// Waits for files that another thread writes, and does what follows. Throws the error of the first one that failed.
template <class R>
void finish_files(R& run) {
  if constexpr (WritesLater<typename R::Key::Backend>)
    if (run.under_way.then) finish(run.under_way, run.made.held_files, run.due);
}

/// The results of a run so far, without files that another thread is still writing.
template <class R>
Outcome const& written_outcome(R const& run) {
  if constexpr (WritesLater<typename R::Key::Backend>)
    if (run.under_way.then) return run.under_way.before;
  return run.made.outcome;
}

/// Part of a run's state: what it has written, and where.
struct Made {
  HeldFiles held_files{};           ///< checkpoint files, and their holders
  std::filesystem::path log_dir{};  ///< the first logger's folder
  Outcome outcome{};
  std::filesystem::path log_dir_before{}, metrics_file_before{};  ///< both values before the call's setup
};

}  // namespace loop
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/checkpoint_files.ipp>
#endif
