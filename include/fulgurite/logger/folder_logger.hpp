#pragma once
// Shared by the loggers that write into a run's folder: what the folder contains, how a resumed run continues in it,
// and when rows are dropped.

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
#include <fulgurite/core/types.hpp>
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

// Gives each run a folder of its own: version_0, version_1, ... Safe if two runs start at the same time.

/// Calls f(number, path) for each version_N in `root`, in any order.
void each_version(std::filesystem::path const& root, FunctionRef<void(long, std::filesystem::path const&)> f);

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

/// The folder of a logger: that of the run that is resumed, or the one that the options choose.
class ChosenFolder {
 public:
  /// `owner`: the logger's name in errors; `lock`: the name of its lock file. Throws for a name that leads out of the
  /// folder, and for an invalid version.
  ChosenFolder(std::string_view owner, std::string_view lock, std::filesystem::path save_dir, FolderOptions options);

  /// A run begins: chooses the folder; `make(root)` makes a new one. Returns true if this process writes: rank zero
  /// does, except in a fast_dev_run or barebones.
  bool choose(Context& ctx, FunctionRef<std::filesystem::path(std::filesystem::path const&)> make);
  /// Sets the folder of the run that the next fit resumes; called before that fit begins.
  void continue_in(std::filesystem::path folder) { continued_ = std::move(folder); }
  /// The fit failed before it resumed: restores the previous folder.
  void do_not_continue();
  void end();

  bool is_chosen() const { return !folder_.empty(); }
  std::filesystem::path const& path() const { return folder_; }
  bool is(std::filesystem::path const& folder) const;
  bool is_resumed() const { return is_resumed_; }
  FolderOptions const& options() const { return options_; }
  /// The folder that contains the versions.
  std::filesystem::path root_of(TrainerOptions const& options) const;

 private:
  /// Continues in the folder of the resumed run if it is below `root`. A program that now logs elsewhere does not write
  /// into another program's folders.
  void go_on_in(Context& ctx, std::filesystem::path const& folder, std::filesystem::path const& root);

  std::string owner_, lock_;
  std::filesystem::path save_dir_;
  FolderOptions options_;
  std::filesystem::path folder_{};
  std::filesystem::path continued_{};                           ///< the folder of the run that the next fit resumes
  std::optional<std::filesystem::path> before_ = std::nullopt;  ///< the folder before that, until the fit is over
  bool is_resumed_ = false;
};

// A row as loggers write it: its axis first, and each name with the logger's prefix.

/// A name with its prefix, if there is one: "a-loss".
std::string prefixed(std::string const& prefix, std::string_view name);

/// Calls f(cells) with the cells of a row, `step` first.
void with_cells(std::span<Scalar const> row, long step, std::string const& prefix,
                FunctionRef<void(std::vector<Cell> const&)> f);

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
/// end of a run, finish(success), and leave(), which undoes that it was opened. Loggers of several kinds in one
/// trainer, with the same save_dir and name, share the folder of the first of them.
template <class Table, class More = NothingMore>
class FolderLogger {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::before_save>;
  static constexpr bool inert_in_dev_run = true;

  void setup(Context& ctx);
  /// Sets the folder of the run that the next fit resumes; called before its setup.
  void continue_in(std::filesystem::path folder) { folder_.continue_in(std::move(folder)); }

  /// The fit failed before it resumed from its file: restores the previous folder, drops no row, and writes none of its
  /// hyper-parameters, nor its end.
  void do_not_continue() {
    keep_.reset();
    pending_.reset();
    if (folder_.is_resumed()) {
      if constexpr (requires { table_->leave(); })
        if (table_) table_->leave();
      table_.reset();
      lock_.reset();
    }
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
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const;

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

  ChosenFolder folder_;
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
  auto const make = [&](std::filesystem::path const& root) {
    if constexpr (requires { Table::new_run(root, more_); }) return Table::new_run(root, more_);
    else return new_version(root);
  };
  if (!folder_.choose(ctx, make)) return;
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
  write([&](Table& table) {
    with_cells(row, step, folder_.options().prefix, [&](std::vector<Cell> const& cells) { table.add(cells); });
  });
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
std::vector<std::filesystem::path> FolderLogger<Table, More>::earlier_runs(TrainerOptions const& options) const {
  std::vector<std::filesystem::path> folders;
  auto const root = folder_.root_of(options);
  auto const& only = folder_.options().version;
  if constexpr (requires { Table::each_run(root, [](std::filesystem::path const&) {}); })
    Table::each_run(root, [&](std::filesystem::path const& folder) { folders.push_back(folder); });
  else
    each_version(root, [&](long number, std::filesystem::path const& folder) {
      if (!only || *only == number) folders.push_back(folder);
    });
  return folders;
}

template <class Table, class More>
FolderLogger<Table, More>::FolderLogger(std::filesystem::path save_dir, FolderOptions options, More more)
    : folder_(Table::owner, Table::lock, std::move(save_dir), std::move(options)), more_(std::move(more)) {}

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
  FULGURITE_##WHAT(class FolderLogger<TABLE, MORE>);                                                                   \
  FULGURITE_##WHAT(void FolderLogger<TABLE, MORE>::finalize(Status));                                                  \
  FULGURITE_##WHAT(void FolderLogger<TABLE, MORE>::state(StateSaver&));                                                \
  FULGURITE_##WHAT(void FolderLogger<TABLE, MORE>::state(StateLoader&))

}  // namespace fulgurite::logger

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/folder_logger.ipp>
#endif
