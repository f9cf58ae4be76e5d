#pragma once
// The checkpoint files of a run: who counts on which, and what a request may do with them when its time has come.

#include <concepts>
#include <cstddef>
#include <exception>
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
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// Lightning's ckpt_path, the last argument of fit, validate, test and predict:
///   trainer.fit(net, data, CkptPath{"last"});
/// "last" is the newest of the files that the trainer's callbacks have left; where there is none, the run is a new one,
/// which is said. "best" is the best file of the first ModelCheckpoint of this trainer. "hpc" is the file of the
/// highest number that was left for a scheduler which starts the run again. Anything else is a file. A fit goes on from
/// it as if it had never stopped; an evaluation takes the weights, of a file of weights alone as well, and the state of
/// the model and the data module.
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

/// `trainer.fit(net, data, {.ckpt_path = "last"})`, as Lightning has it. `{}` makes none.
struct CkptPathOption {
  struct Text {
    template <std::convertible_to<std::filesystem::path> T>
    constexpr Text(T const&) {}
  };
  Text ckpt_path;
};

}  // namespace refusal

namespace loop {

/// What snapshot(trainer) returns.
template <class T>
inline constexpr bool is_snapshot = false;
template <class R>
inline constexpr bool is_snapshot<Snapshot<R>> = true;

/// In the place of a CkptPath where none is given: a program that never goes on from a file holds no code for it.
struct Anew {};
template <class From>
concept StartingPoint =
    std::same_as<From, Anew> || is_snapshot<From> || std::convertible_to<From, std::optional<CkptPath>>;

template <class... Args>
inline constexpr bool names_file =
    ((is_snapshot<std::remove_cvref_t<Args>> || std::is_same_v<std::remove_cvref_t<Args>, CkptPath> ||
      std::is_same_v<std::remove_cvref_t<Args>, std::optional<CkptPath>>) ||
     ...);

/// A fit that is not told where to go on from looks for a file of this callback.
template <class C>
inline constexpr bool resumes_fit = false;
template <class C>
  requires requires { C::resumes_fit; }
inline constexpr bool resumes_fit<C> = C::resumes_fit;
template <class Pack>
inline constexpr bool any_resumes_fit = false;
template <template <class...> class Pack, class... Cs>
inline constexpr bool any_resumes_fit<Pack<Cs...>> = (resumes_fit<Cs> || ...);

/// The words of a call as one type.
template <class From>
std::optional<CkptPath> path_of(From const& from) {
  if constexpr (std::same_as<From, Anew> || is_snapshot<From>) return std::nullopt;
  else return from;
}

}  // namespace loop

// What a run has to show for itself.

/// Callbacks fill it, the last line of a fit is made of it.
struct Outcome {
  std::string best_metric = {};       ///< as it is watched: "vl.last()"
  std::string best_metric_name = {};  ///< the metric's own: "vl"
  std::optional<double> best_value = std::nullopt;
  int best_epoch = 0;
  std::filesystem::path best_file = {};
  std::filesystem::path last_file = {};
  std::filesystem::path metrics_file = {};
  /// What ended the last fit: "max_epochs = 10", "EarlyStopping: val/loss = ...", the reason that a stop request gave.
  /// Empty while it runs, after an exception, and where it was closed before its end.
  std::string ended_by = {};

  void state(auto& archive);
};

/// What a callback is told that names files of earlier runs: `last_checkpoints(search)` or `hpc_checkpoints(search)`,
/// which are asked before setup. Without an argument they speak of the folders that the callback knows.
struct CheckpointSearch {
  std::filesystem::path root = {};  ///< default_root_dir
  std::string model = {};           ///< the name of the model's type
  /// The folders of all runs that the trainer's loggers know of; nothing where it has no logger.
  std::optional<std::vector<std::filesystem::path>> runs = std::nullopt;
};

namespace loop {

/// The files that a callback names by a function of that name, which may take what it searches by.
template <class C>
concept NamesLast = hook::last_checkpoints::accepts<C, CheckpointSearch const> || hook::last_checkpoints::accepts<C>;
template <class C>
concept NamesHpc = hook::hpc_checkpoints::accepts<C, CheckpointSearch const> || hook::hpc_checkpoints::accepts<C>;
/// The best file that a callback has written, by `best_model_path()`.
template <class C>
concept NamesBest = requires(C& callback) { std::filesystem::path(callback.best_model_path()); };

}  // namespace loop

/// Who counts on which file: a file goes only when the last of its holders has given it up.
class HeldFiles {
 public:
  /// A callback's address; nullptr is the run itself, for files that were asked for by name.
  using Holder = void const*;

  void hold(std::filesystem::path const& file, Holder holder);
  void give_up(std::filesystem::path const& file, Holder holder);
  /// Somebody else counts on the file.
  bool by_others(std::filesystem::path const& file, Holder holder) const;

  /// A fit of this program resumes from this file, which it has named: nobody removes it, since the same program may be
  /// started again and would name it again. It may be overwritten.
  void begins_with(std::filesystem::path const& file) { named_.insert(key(file)); }
  bool is_begun_with(std::filesystem::path const& file) const;

  /// One file has one key, whatever its folder is called by. A link is itself, not what it leads to.
  static std::filesystem::path key(std::filesystem::path const& file);

 private:
  std::map<std::filesystem::path, std::set<Holder>> holders_{};
  std::set<std::filesystem::path> named_{};
};

class CheckpointFiles;

/// What a callback asks the trainer to do at the next safe point: to write a file of that name, or what a function does
/// then, which names its files only when they are written.
struct CheckpointRequest {
  std::filesystem::path path = {};                 ///< empty where `act` names the files
  std::function<void(CheckpointFiles&)> act = {};  ///< in place of writing `path`
  HeldFiles::Holder holder = nullptr;              ///< who counts on what is written

  CheckpointRequest(std::filesystem::path file) : path(std::move(file)) {}
  CheckpointRequest(char const* file) : path(file) {}
  CheckpointRequest(std::string const& file) : path(file) {}
  CheckpointRequest(HeldFiles::Holder who, std::function<void(CheckpointFiles&)> what);
};

/// What a request does with files at its safe point. Other ranks than 0 do the same, find the names that rank 0 finds,
/// and write or remove nothing.
class CheckpointFiles {
 public:
  using Awaited = FunctionRef<bool(std::filesystem::path const& file)>;
  using Write = FunctionRef<void(std::filesystem::path const& file, bool weights_only)>;
  /// A file that is to be written; `is_new`: only where no such file exists by then.
  struct Planned {
    std::filesystem::path file;
    bool is_new;
  };
  using Then = std::function<void(CheckpointFiles&)>;
  using WriteLater = FunctionRef<void(std::span<Planned const>, bool weights_only, Then)>;
  using Rename = FunctionRef<void(std::filesystem::path const& from, std::filesystem::path const& to)>;
  using Remove = FunctionRef<bool(std::filesystem::path const& file)>;
  using FirstSays = FunctionRef<bool(bool)>;

  /// `awaited`: whether a request that is still to come names a file. What the arguments refer to has to outlive this
  /// object.
  CheckpointFiles(HeldFiles& held, HeldFiles::Holder holder, Awaited awaited, bool writes, Write write);

  bool writes() const { return writes_; }
  /// After a batch: whether a validation comes next, which scores the weights that a file of now holds. nullopt: that
  /// is not known, as where the batch has failed.
  std::optional<bool> validation_follows() const { return validation_follows_; }
  void know_of_validation(std::optional<bool> follows) { validation_follows_ = follows; }
  /// Another participant counts on the file, or a request that is still to come names it.
  bool of_others(std::filesystem::path const& file) const;
  /// The name is not free: it is that of others, or such a file exists.
  bool taken(std::filesystem::path const& file) const;
  /// The weights as they are now, and the state of the run; `weights_only`: of that state only what the model saves
  /// and where in the run it was.
  void write(std::filesystem::path const& file, bool weights_only = false);
  /// Several ranks: each does the same here, and takes part where a file is written. `first_says(mine)` is rank 0's
  /// word.
  void are_shared(FirstSays first_says) { first_says_ = first_says; }
  /// What rank 0 says.
  bool of_first_rank(bool mine) const { return first_says_ ? first_says_(mine) : mine; }
  /// Whether files can be written while the run continues.
  bool later() const { return writes_ && write_later_; }
  void can_write_later(WriteLater how) { write_later_ = how; }
  /// The files get what the run is now, and `then(files)` is called on this thread when they are there, or could not be
  /// written: its `files.write` of one of them says so as if it had happened then.
  void write_later(std::span<Planned const> planned, bool weights_only, Then then);
  /// A file got another name, after what is written was copied.
  void renamed(std::filesystem::path const& from, std::filesystem::path const& to) const;
  void can_rename(Rename how) { rename_ = how; }
  /// A file that `make(file)` makes, as a link to another one. All ranks know whether such a file exists.
  template <class Make>
  void make(std::filesystem::path const& file, Make&& make) {
    bool exists = false;
    try {
      if (writes_) make(file);
    } catch (FileExists const&) { exists = true; }
    if (of_first_rank(exists)) throw FileExists(file);
    held_.hold(file, holder_);
  }
  /// The holder of this request needs the file no more; it is removed unless somebody else does, or this program has
  /// named it to resume from. Returns whether it was removed.
  bool give_up(std::filesystem::path const& file);
  void can_remove(Remove how) { remove_ = how; }

 private:
  HeldFiles& held_;
  HeldFiles::Holder holder_;
  Awaited awaited_;
  bool writes_;
  std::optional<bool> validation_follows_ = std::nullopt;
  Write write_;
  FirstSays first_says_{};
  WriteLater write_later_{};
  Rename rename_{};
  Remove remove_{};
};

}  // namespace fulgurite

namespace fulgurite::loop {

// Part of a run's state: who has heard an event that failed on its way. A fit that goes on tells the others alone.

/// Filled where a hook throws; empty at all other times.
struct Heard {
  std::string event = {};            ///< the hook's name; empty: none failed
  std::vector<std::string> by = {};  ///< the names under which their states are kept; of the model and the strategy too

  template <class Hook>
  bool failed() const {
    return event == Hook::name();
  }
  bool contains(std::string_view name) const;

  void state(auto& archive);
};

// Part of a run's state: what hooks and steps have asked for and the loops have yet to do.

/// A row that waits for a check of the steps that it tells of.
struct HeldRow {
  std::vector<std::pair<std::string, double>> cells;
  long step;
};

/// The accumulation window that is open.
struct WindowRows {
  long batches = -1;  ///< that were over when it began
  long before = 0;    ///< rows before it
};

/// A monitor wants training to end. It may withdraw that as long as the minima are not met.
struct MonitorStop {
  std::string who = {};  ///< the key of the callback's state
  std::string why = {};  ///< in words, for the last line of the fit
  void state(auto& archive);
};

/// A request to end training at a step's boundary, once the minima are met. It is kept and restored as a whole.
struct StopRequest {
  bool holds = false;    ///< for all ranks: `asked`, or a monitor wants it
  bool asked = false;    ///< a hook, the program or a limit of time made it: it cannot be withdrawn
  bool waits = false;    ///< under several ranks: this one made it, and the others are notified with the next gradients
  bool by_time = false;  ///< max_time or a Timer alone made it: where the limit is raised, training continues
  std::string why = {};  ///< the reason that was given first
  std::vector<MonitorStop> monitors{};

  /// Replaces what this monitor has said before.
  void set_monitor(MonitorStop const& request, bool wanted);
  /// What a file holds of it: a limit of time is looked at again.
  StopRequest lasting() const;
};

struct Due {
  StopRequest stop{};
  bool stop_of_file = false;      ///< the file that the run resumes from holds such a stop, and the limits are the same
  StopRequest stop_before_cut{};  ///< what a file holds of it, before hooks were notified of a cut epoch's end
  std::vector<std::string> other_monitors{};  ///< callbacks that have other options than in the file, or are gone
  bool statistics_pass = false;               ///< before on_train_end the training data are passed once more
  std::vector<CheckpointRequest> requests{};
  std::vector<CheckpointRequest> now{};    ///< those that are being done, one after the other
  std::size_t done = 0;                    ///< of these
  std::vector<CheckpointRequest> aside{};  ///< of a window that is not over, while a validation makes its own
  std::vector<std::pair<std::string, double>> posted{};  ///< rows of callbacks, on their way to the loggers
  std::vector<HeldRow> held_rows{};                      ///< of replayed steps that no check has followed

  Heard heard{};  ///< of an event that has failed: the others are yet to hear it

  long rows = 0;  ///< that loggers have received
  WindowRows window{};

  /// An accumulation window begins after so many batches. Rows that wait are of windows before it.
  void begin_window(long batches);
  /// The rows since then, which come again where that window is done again.
  long rows_of_window(long batches) const;

  /// A request that is still to come names the file.
  bool awaits(std::filesystem::path const& file) const;

  void set_aside();
  void take_back();
};

/// The Backend can copy a run, and write files from the copy on another thread.
template <class B>
concept WritesLater = requires { typename B::Background; };

/// Nothing is ever under way.
template <class B>
struct FilesUnderWay {};

template <WritesLater B>
struct FilesUnderWay<B> {
  typename B::Background writer{};
  HeldFiles::Holder holder = nullptr;
  CheckpointFiles::Then then = nullptr;  ///< not empty while files are under way
};

/// Some callback of the pack asks for files.
template <class Pack>
inline constexpr bool any_names_files = false;
template <template <class...> class Pack, class... Cs>
inline constexpr bool any_names_files<Pack<Cs...>> = ((NamesLast<Cs> || NamesHpc<Cs>) || ...);

/// Between steps: whether there is an answer of the thread that writes files.
template <class Pack, class R>
[[gnu::always_inline]] inline bool answer_waits([[maybe_unused]] R& run) {
  if constexpr (WritesLater<typename R::Key::Backend> && any_names_files<Pack>)
    return run.under_way.then && run.under_way.writer.done() && !run.facts.accumulating;
  else return false;
}

/// See finish_files: a function of the Backend alone.
template <WritesLater B>
void finish(FilesUnderWay<B>& now, HeldFiles& held, Due const& due) {
  now.writer.wait();
  auto const then = std::exchange(now.then, nullptr);
  auto const write = [&now](std::filesystem::path const& file, bool) { now.writer.write(file); };
  CheckpointFiles files(held, now.holder, CheckpointFiles::Awaited::to<&Due::awaits>(due), true, write);
  auto const rename = [&now](std::filesystem::path const& from, std::filesystem::path const& to) {
    now.writer.image().rename(from, to);
  };
  auto const remove = [&now](std::filesystem::path const& file) { return now.writer.remove(file); };
  files.can_rename(rename);
  files.can_remove(remove);
  struct LetsGo {  // of what `then` has taken away, also where it fails later on
    typename B::Background& writer;
    ~LetsGo() { writer.let_go(); }
  } const lets_go{now.writer};
  then(files);
}

/// What follows from files that another thread writes, when it has. An exception is that of the first file that could
/// not be written.
template <class R>
void finish_files(R& run) {
  if constexpr (WritesLater<typename R::Key::Backend>)
    if (run.under_way.then) finish(run.under_way, run.made.held_files, run.due);
}

/// The same for a fit that is left open: nobody is there to catch an exception, so it is a warning.
template <class R>
void abandon_files(R& run) noexcept {
  auto const tell = [&run](char const* why) {
    run.warn_each("fulgurite.checkpoint.failed_too",
                  std::string("the fit was left before its end, and this file could not be written: ") + why);
  };
  try {
    finish_files(run);
  } catch (std::exception const& error) { tell(error.what()); } catch (...) {
    tell("what was thrown is no std::exception");
  }
}

// Part of a run's state: what it has made so far, and where that lies.

struct Made {
  HeldFiles held_files{};           ///< checkpoint files, and who counts on them
  std::filesystem::path log_dir{};  ///< the first logger's folder
  Outcome outcome{};
  std::filesystem::path log_dir_before{}, metrics_file_before{};  ///< what both were before the call's setup
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/checkpoint_files.ipp>
#endif
