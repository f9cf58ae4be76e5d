#pragma once
// Shared by the loggers that write into a run's folder: what the folder contains, how a resumed run continues in it,
// and when rows are dropped.

#include <charconv>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

// Texts for a run's folder that describe the program and the machine; a report shows them.

/// This machine and this program's compiler, in a few lines.
std::string system_text();

/// Writes describe.txt, options.txt and system.txt into a run's folder. They are for people, so this does not wait for
/// the disk, and a file that cannot be written is left out.
void put_notes(std::filesystem::path const& folder, std::string const& program, std::string const& options);

}  // namespace fulgurite::report

namespace fulgurite::elsewhere {

/// Lightning's option for a logger's folder, which is the first argument here: naming it is a compile error.
struct SaveDir {
  constexpr SaveDir() = default;
  template <class Folder, bool is_option = false>
  constexpr SaveDir(Folder const&) {
    static_assert(is_option, "[fulgurite.logger.save_dir] the folder is the first argument of a logger, before the "
                             "options: CSVLogger{\"logs\", {.name = \"mlp\"}}");
  }
};

}  // namespace fulgurite::elsewhere

namespace fulgurite::logger {

// The folders of a logger, from its options, and which options are invalid.

/// Which folder below save_dir belongs to the run, and the names of its columns: the options that all of these loggers
/// share.
struct FolderOptions {
  std::string name = {};
  std::optional<long> version = std::nullopt;
  std::string prefix = {};
};

/// Throws for a name that leads out of the folder, and for an invalid version. `owner` is the logger's name.
void check_folder(std::string const& owner, FolderOptions const& options);

/// The folder that contains the versions.
std::filesystem::path folder_root(std::filesystem::path const& save_dir, FolderOptions const& options,
                                  TrainerOptions const& trainer);

// Gives each run a folder of its own: version_0, version_1, ... Safe if two runs start at the same time.

/// Calls f(number, path) for each version_N in `root`, in any order.
template <class F>
void each_version(std::filesystem::path const& root, F&& f) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().string();
    constexpr std::string_view prefix = "version_";
    long number = -1;
    auto const* const last = name.data() + name.size();
    if (!name.starts_with(prefix) || std::from_chars(name.data() + prefix.size(), last, number).ptr != last) continue;
    f(number, entry->path());
  }
}

/// Makes the first free version folder from `number` on. mkdir decides a race: the second process takes the next
/// number.
std::filesystem::path claim_version(std::filesystem::path const& root, long number);

/// Makes the next version's folder in `root`.
std::filesystem::path new_version(std::filesystem::path const& root);

// Allows one writer in a version's folder, however many processes were given the same number.

/// Keeps other loggers, in this process or another, out of a folder while it exists: they throw
/// [fulgurite.logger.version_in_use]. The lock is a file that contains the name of its owner; it is called `.lock`, or
/// as the kind of logger defines. The kernel releases it when the process ends, so a killed run does not block its
/// folder. On a file system without locks it has no effect.
class VersionLock {
 public:
  explicit VersionLock(std::filesystem::path const& folder, std::string_view name = ".lock");
  VersionLock(VersionLock&&) = default;
  VersionLock& operator=(VersionLock&&) = default;
  ~VersionLock();

  /// True if the lock is still held. It is not if the folder was deleted meanwhile: another process may then hold a
  /// lock of the same name.
  bool holds() const;

 private:
  static std::string owner(int descriptor);

  std::filesystem::path path_;
  FileDescriptor descriptor_;
};

/// The folder of a logger with such a `Table`; see FolderLogger for the requirements.
template <class Table>
class ChosenFolder {
 public:
  ChosenFolder(std::filesystem::path save_dir, FolderOptions options)
      : save_dir_(std::move(save_dir)), options_(std::move(options)) {
    check_folder(std::string(Table::owner), options_);
  }

  /// A run begins: chooses the folder. Returns true if this process writes: rank zero does, except in a fast_dev_run or
  /// barebones.
  bool choose(Context& ctx, auto const& more);
  /// Sets the folder of the run that the next fit resumes; called before that fit begins.
  void continue_in(std::filesystem::path folder) { continued_ = std::move(folder); }
  /// The fit failed before it resumed: restores the previous folder.
  void do_not_continue();
  void end() {
    continued_.clear();
    before_.reset();
  }

  bool is_chosen() const { return !folder_.empty(); }
  std::filesystem::path const& path() const { return folder_; }
  bool is(std::filesystem::path const& folder) const { return is_same(folder, folder_); }
  bool is_resumed() const { return is_resumed_; }
  FolderOptions const& options() const { return options_; }

  /// The folders of all runs that such a logger has made, or may continue.
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const;

 private:
  std::filesystem::path root_of(TrainerOptions const& options) const {
    return folder_root(save_dir_, options_, options);
  }
  static bool is_same(std::filesystem::path const& a, std::filesystem::path const& b) {
    std::error_code missing;
    return a == b || std::filesystem::equivalent(a, b, missing);
  }
  static std::filesystem::path new_folder(std::filesystem::path const& root, auto const& more) {
    if constexpr (requires { Table::new_run(root, more); }) return Table::new_run(root, more);
    else return new_version(root);
  }
  /// True if a logger of another kind, listed before this one, has made the run's folder where this one would.
  static bool may_share(std::filesystem::path const& folder, std::filesystem::path const& root) {
    std::error_code missing;
    return !folder.empty() && is_same(folder.parent_path(), root) &&
           !std::filesystem::exists(folder / Table::lock, missing);
  }

  /// Continues in the folder of the resumed run if it is below `root`. A program that now logs elsewhere does not write
  /// into another program's folders.
  void go_on_in(Context& ctx, std::filesystem::path const& folder, std::filesystem::path const& root);

  std::filesystem::path save_dir_;
  FolderOptions options_;
  std::filesystem::path folder_{};
  std::filesystem::path continued_{};                           ///< the folder of the run that the next fit resumes
  std::optional<std::filesystem::path> before_ = std::nullopt;  ///< the folder before that, until the fit is over
  bool is_resumed_ = false;
};

template <class Table>
bool ChosenFolder<Table>::choose(Context& ctx, auto const& more) {
  auto const earlier = std::exchange(continued_, {});
  before_.reset();
  is_resumed_ = false;
  if (ctx.rank() != 0 || ctx.dev_run() || ctx.options().barebones) return false;
  auto const root = root_of(ctx.options());
  if (!earlier.empty() && !options_.version) go_on_in(ctx, earlier, root);
  if (folder_.empty() && options_.version) {
    folder_ = root / ("version_" + std::to_string(*options_.version));
    file::make_folders(folder_);
  } else if (folder_.empty()) {
    folder_ = may_share(ctx.log_dir(), root) ? ctx.log_dir() : new_folder(root, more);
  }
  return true;
}

template <class Table>
void ChosenFolder<Table>::do_not_continue() {
  continued_.clear();
  if (before_) folder_ = *before_;
  before_.reset();
  is_resumed_ = false;
}

template <class Table>
std::vector<std::filesystem::path> ChosenFolder<Table>::earlier_runs(TrainerOptions const& options) const {
  std::vector<std::filesystem::path> folders;
  auto const root = root_of(options);
  if constexpr (requires { Table::each_run(root, [](std::filesystem::path const&) {}); })
    Table::each_run(root, [&](std::filesystem::path const& folder) { folders.push_back(folder); });
  else
    each_version(root, [&](long number, std::filesystem::path const& folder) {
      if (!options_.version || *options_.version == number) folders.push_back(folder);
    });
  return folders;
}

template <class Table>
void ChosenFolder<Table>::go_on_in(Context& ctx, std::filesystem::path const& folder,
                                   std::filesystem::path const& root) {
  before_ = folder_;
  std::error_code missing;
  bool const is_there = std::filesystem::is_directory(folder, missing);
  if (is_there && is_same(folder.parent_path(), root)) {
    is_resumed_ = true;
    folder_ = folder;
    return;
  }
  folder_.clear();
  ctx.warn_each("fulgurite.logger.new_folder",
                std::string(Table::owner) + ": the run that is resumed was logged in " + folder.string() +
                    (is_there ? ", which is not in " + root.string() : std::string(", which is not there")) +
                    ": its further rows are written to a new folder");
}

// A row as loggers write it: its axis first, and each name with the logger's prefix.

/// A name with its prefix, if there is one: "a-loss".
std::string prefixed(std::string const& prefix, std::string_view name);

/// The cells of a row, `step` first, and the names to which they point.
class NamedRow {
 public:
  NamedRow(std::span<Scalar const> row, long step, std::string const& prefix);
  NamedRow(NamedRow const&) = delete;

  std::vector<Cell> const& cells() const { return cells_; }

 private:
  std::vector<std::string> names_{};
  std::vector<Cell> cells_{};
};

// Hyper-parameters as a YAML mapping that any YAML reader reads back with the right types.

/// A mapping with one "name: value" a line. Strings are in double quotes, lists in brackets.
std::string hparams_yaml(std::span<Hyperparameter const> parameters);

/// The settings of a logger that needs only a folder.
struct NothingMore {};

/// Base of loggers that write a `Table`, which is a file in the run's folder. A Table has:
///   Table(folder, more)    opens it; an existing one is continued
///   add(cells)             adds a row; the first cell is the axis, "step"
///   rows(), keep(rows)     the number of entries, and dropping all entries after the first `rows`
///   before_last(n)         the number of entries before the last n rows
///   sync(), path()
///   owner, lock            the logger's name in errors, and the name of the lock file
///   write_hyperparameters(all)   optional: writes them to the file, too; hparams.yaml is written in any case
/// If folders are not named version_N, it also has new_run(root, more) and each_run(root, f); if the file records the
/// end of a run, finish(success). Loggers of several kinds in one trainer, with the same save_dir and name, share the
/// folder of the first of them.
template <class Table, class More = NothingMore>
class FolderLogger {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::before_save>;
  static constexpr bool inert_in_dev_run = true;

  void setup(Context& ctx);
  /// Sets the folder of the run that the next fit resumes; called before its setup.
  void continue_in(std::filesystem::path folder) { folder_.continue_in(std::move(folder)); }

  /// The fit failed before it resumed from its file: restores the previous folder, and drops no row.
  void do_not_continue() {
    keep_.reset();
    folder_.do_not_continue();
  }

  /// Announces that the last `rows` rows will be logged again by a run that resumes from a file that is written now.
  void expect_again(long rows) { again_ = table_ && rows > 0 ? rows_ - table_->before_last(rows) : 0; }

  void on_train_start(Context& ctx);
  /// A checkpoint contains the number of rows, so they must be on disk before it is.
  void before_save(Context&) {
    if (table_) table_->sync();
  }

  void log_metrics(std::span<Scalar const> row, long step);

  void log_hyperparams(std::span<Hyperparameter const> parameters);
  /// Writes describe.txt (the program that the trainer's types make), options.txt (its options) and system.txt (the
  /// machine) into the run's folder, where report::html finds them. A resumed run has those of its last fit, whose
  /// limits may be higher.
  template <class Whole>
  void log_program(std::type_identity<Whole> program, auto const& asked) {
    if (!folder_.is_chosen()) return;
    auto const text = report::program_text(program, asked.options, asked.optimization);
    auto folder = folder_.path();
    if constexpr (requires { Table::notes; }) folder /= Table::notes;
    report::put_notes(folder, text, report::options_text(asked.options, report::automatic_options(asked.optimization)));
  }
  /// Releases the folder, so that another logger may use it. A further row locks it again.
  void finalize(auto status);

  /// Saves or loads the number of rows. When loading, surplus rows are dropped later, when the run resumes: a file that
  /// turns out not to fit drops none. Throws [fulgurite.logger.rows_missing] if the table has fewer rows.
  void state(auto& archive);

  /// The run's folder, `lightning_logs/version_N`; empty before setup.
  std::filesystem::path const& log_dir() const { return folder_.path(); }
  /// The folders of all runs that this logger has made, or may continue.
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const {
    return folder_.earlier_runs(options);
  }

 protected:
  FolderLogger(std::filesystem::path save_dir, FolderOptions options, More more = {});

  /// Calls f(table) after everything that precedes it in the file is written.
  template <class F>
  void write(F&& f);
  /// True if there is a file to write to. Throws before the first run, when no folder is known yet.
  bool writes(char const* what) const;
  std::string prefixed(std::string_view name) const { return logger::prefixed(folder_.options().prefix, name); }
  bool is_resumed() const { return folder_.is_resumed(); }
  static std::string owner() { return std::string(Table::owner); }

 private:
  static constexpr bool keeps_hyperparameters =
      requires(Table& table, std::vector<Hyperparameter> const& all) { table.write_hyperparameters(all); };

  void drop_rows();

  void open();

  ChosenFolder<Table> folder_;
  More more_;
  std::string hyperparameters_ = hparams_yaml({});
  long again_ = 0;                           ///< entries of an accumulation window that will be done again
  long rows_ = 0;                            ///< rows of the table when it was last open
  std::optional<long> keep_ = std::nullopt;  ///< rows that are kept when the next row is written
  bool trains_ = false, begun_ = false;
  std::optional<std::vector<Hyperparameter>> pending_ =
      std::nullopt;                   ///< not in the table yet; written with the next row
  bool has_hyperparameters_ = false;  ///< whether the table has them now
  bool had_hyperparameters_ = false;  ///< whether it had them when the loaded checkpoint was written
  std::optional<VersionLock> lock_ = std::nullopt;
  std::optional<Table> table_ = std::nullopt;
};

template <class Table, class More>
void FolderLogger<Table, More>::setup(Context& ctx) {
  keep_.reset();
  again_ = 0;
  trains_ = false;
  begun_ = true;
  if (!folder_.choose(ctx, more_)) return;
  if (folder_.is_resumed()) {
    lock_.reset();
    table_.reset();
  }
  open();
  ctx.set_log_dir(folder_.path());
  if (ctx.outcome().metrics_file.empty()) ctx.outcome().metrics_file = table_->path();
}

template <class Table, class More>
void FolderLogger<Table, More>::on_train_start(Context& ctx) {
  trains_ = true;
  if (keep_ && *keep_ < rows_)
    ctx.warn_each("fulgurite.logger.rows_dropped",
                  owner() + ": the last " + std::to_string(rows_ - *keep_) + " rows of " + table_->path().string() +
                      " are from after the checkpoint that this run resumes from: they are "
                      "dropped when its training starts");
}

template <class Table, class More>
void FolderLogger<Table, More>::log_metrics(std::span<Scalar const> row, long step) {
  if (!folder_.is_chosen()) return;
  write([&](Table& table) { table.add(NamedRow(row, step, folder_.options().prefix).cells()); });
}

template <class Table, class More>
void FolderLogger<Table, More>::log_hyperparams(std::span<Hyperparameter const> parameters) {
  if (!folder_.is_chosen()) return;
  hyperparameters_ = hparams_yaml(parameters);
  if (!is_resumed()) write_durably(folder_.path() / "hparams.yaml", hyperparameters_);
  if constexpr (keeps_hyperparameters) pending_.emplace(parameters.begin(), parameters.end());
}

template <class Table, class More>
void FolderLogger<Table, More>::finalize(auto status) {
  if (table_ && trains_) drop_rows();
  if (table_ && pending_) write([](Table&) {});
  if constexpr (requires(Table& table) { table.finish(status); })
    if (table_) table_->finish(status);
  folder_.end();
  keep_.reset();
  again_ = 0;
  table_.reset();
  lock_.reset();
}

template <class Table, class More>
void FolderLogger<Table, More>::state(auto& archive) {
  auto folder = folder_.path();
  long rows = keep_.value_or(rows_) - again_;
  bool has_hyperparameters = keep_ ? had_hyperparameters_ : has_hyperparameters_;
  archive("folder", folder)("rows", rows);
  if constexpr (keeps_hyperparameters) archive("told", has_hyperparameters);
  if (!archive.loading) return;
  keep_.reset();
  if (!table_ || !folder_.is(folder)) return;
  if (rows < 0 || rows > rows_)
    throw Error("fulgurite.logger.rows_missing",
                owner() + ": " + table_->path().string() + " has " + std::to_string(rows_) +
                    " rows, and the checkpoint that the run resumes from was written after " + std::to_string(rows) +
                    ": bring the table back, or move its folder away, so that further rows are written to a new one");
  keep_ = rows;
  had_hyperparameters_ = has_hyperparameters;
}

template <class Table, class More>
FolderLogger<Table, More>::FolderLogger(std::filesystem::path save_dir, FolderOptions options, More more)
    : folder_(std::move(save_dir), std::move(options)), more_(std::move(more)) {}

template <class Table, class More>
template <class F>
void FolderLogger<Table, More>::write(F&& f) {
  open();
  drop_rows();
  if constexpr (keeps_hyperparameters) {
    if (pending_ && !(is_resumed() && has_hyperparameters_)) {
      table_->write_hyperparameters(*pending_);
      has_hyperparameters_ = true;
    }
    pending_.reset();
  }
  f(*table_);
  rows_ = table_->rows();
}

template <class Table, class More>
bool FolderLogger<Table, More>::writes(char const* what) const {
  if (!begun_)
    throw Error("fulgurite.logger.no_run", owner() + ": " + what +
                                               " was called before a run has begun, and so before there is a folder: "
                                               "call it from a hook, or after the run");
  return folder_.is_chosen();
}

template <class Table, class More>
void FolderLogger<Table, More>::drop_rows() {
  if (!keep_) return;
  table_->keep(*keep_);
  keep_.reset();
  has_hyperparameters_ = had_hyperparameters_;
  rows_ = table_->rows();
}

template <class Table, class More>
void FolderLogger<Table, More>::open() {
  if (!lock_ || !lock_->holds()) {
    file::make_folders(folder_.path());
    lock_.reset();
    lock_.emplace(folder_.path(), Table::lock);
    std::error_code error;
    if (auto const yaml = folder_.path() / "hparams.yaml"; !std::filesystem::exists(yaml, error))
      write_durably(yaml, hyperparameters_);
  }
  if (table_) return;
  table_.emplace(folder_.path(), more_);
  rows_ = table_->rows();
}

// Follows the definition of a Table and its body file: the library instantiates its logger, see FULGURITE_EXTERN.
#define FULGURITE_FOLDER_LOGGER(WHAT, TABLE, MORE)                                                                     \
  FULGURITE_##WHAT(class ChosenFolder<TABLE>);                                                                         \
  FULGURITE_##WHAT(bool ChosenFolder<TABLE>::choose(Context&, MORE const&));                                           \
  FULGURITE_##WHAT(class FolderLogger<TABLE, MORE>);                                                                   \
  FULGURITE_##WHAT(void FolderLogger<TABLE, MORE>::finalize(Status));                                                  \
  FULGURITE_##WHAT(void FolderLogger<TABLE, MORE>::state(StateSaver&));                                                \
  FULGURITE_##WHAT(void FolderLogger<TABLE, MORE>::state(StateLoader&))

}  // namespace fulgurite::logger

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/folder_logger.ipp>
#endif
