#pragma once
// What loggers that write into a run's folder have in common: whose folder it is, how a run goes on in it, and when
// rows are dropped.

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
#include <fulgurite/checkpoint/folders.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/folder_options.hpp>
#include <fulgurite/logger/hparams.hpp>
#include <fulgurite/logger/named_row.hpp>
#include <fulgurite/logger/version_folder.hpp>
#include <fulgurite/logger/version_lock.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/run_notes.hpp>

namespace fulgurite::logger {

/// What a logger that needs no more than a folder is made with.
struct NothingMore {};

/// The logger of a `Table`, which is a file in the run's folder:
///   Table(folder, more)    opens it; one that exists is continued
///   add(cells)             a row; the first cell is the axis, "step"
///   tell(hyperparameters)  where they stand in the file, too; hparams.yaml lies beside it in any case
///   rows(), keep(rows)     how many entries there are, and drops those that follow the first so many
///   before_last(n)         how many entries come before the last n rows
///   sync(), path()
///   owner, lock            the logger's name in errors, and the name of the file that keeps a second one away
/// and, where folders are not called version_N, new_run(root, more) and each_run(root, f); finish(success), where the
/// end of a run stands in the file.
/// Loggers of several kinds in one trainer, with the same save_dir and name, share the folder of the first of them.
template <class Table, class More = NothingMore>
class FolderLogger {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::before_save>;
  static constexpr bool inert_in_dev_run = true;

  void setup(auto& ctx) {
    auto const earlier = std::exchange(continued_, {});
    keep_.reset();
    before_.reset();
    again_ = 0;
    trains_ = goes_on_ = false;
    begun_ = true;
    if (ctx.rank() != 0 || ctx.dev_run() || ctx.options().barebones) return;
    auto const root = root_of(ctx.options());
    if (!earlier.empty() && !options_.version) go_on_in(ctx, earlier, root);
    if (folder_.empty() && options_.version) {
      folder_ = root / ("version_" + std::to_string(*options_.version));
      file::make_folders(folder_);
    } else if (folder_.empty()) {
      folder_ = may_share(ctx.log_dir(), root) ? ctx.log_dir() : new_folder(root);
    }
    open();
    ctx.set_log_dir(folder_);
    if (ctx.outcome().metrics_file.empty()) ctx.outcome().metrics_file = table_->path();
  }
  /// The folder of the run that the next fit goes on with, told before its setup.
  void continue_in(std::filesystem::path folder) { continued_ = std::move(folder); }

  /// The fit has failed before it went on from its file: the folder is that of before, and no row is dropped.
  void do_not_continue() {
    continued_.clear();
    keep_.reset();
    if (before_) folder_ = *std::exchange(before_, std::nullopt);
    goes_on_ = false;
  }

  /// So many of the last rows come again when a run goes on from a file that is written now.
  void expect_again(long rows) { again_ = table_ && rows > 0 ? rows_ - table_->before_last(rows) : 0; }

  void on_train_start(auto& ctx) {
    trains_ = true;
    if (keep_ && *keep_ < rows_)
      ctx.warn_each("fulgurite.logger.rows_dropped", owner() + ": the last " + std::to_string(rows_ - *keep_) +
                                                         " rows of " + table_->path().string() +
                                                         " are of a run that went further than the file which this one "
                                                         "goes on from: they will be dropped when it goes on");
  }
  /// A file tells how many rows there are, so they are on the disk before it.
  void before_save(auto&) {
    if (table_) table_->sync();
  }

  void log_metrics(std::span<Scalar const> row, long step) {
    if (folder_.empty()) return;
    write([&](Table& table) { table.add(NamedRow(row, step, options_.prefix).cells()); });
  }

  void log_hyperparams(std::span<Hyperparameter const> parameters) {
    if (folder_.empty()) return;
    hyperparameters_ = hparams_yaml(parameters);
    if (!goes_on_) write_durably(folder_ / "hparams.yaml", hyperparameters_);
    if constexpr (tells) untold_.emplace(parameters.begin(), parameters.end());
  }
  /// describe.txt, the program that the trainer's types make, and system.txt, the machine, stand beside the rows, where
  /// report::html finds them. A run that goes on has those of its beginning.
  template <class Whole>
  void log_program(std::type_identity<Whole> program, auto const& asked) {
    if (folder_.empty() || goes_on_) return;
    auto const text = report::program_text(program, asked.options, asked.optimization);
    if constexpr (requires { Table::notes; }) report::put_notes(folder_ / Table::notes, text);
    else report::put_notes(folder_, text);
  }
  /// Releases the folder, so that another logger may use it. A further row takes it again.
  void finalize(auto status) {
    if (table_ && trains_) drop_rows();
    if (table_ && untold_) write([](Table&) {});
    if constexpr (requires(Table& table) { table.finish(status); })
      if (table_) table_->finish(status);
    continued_.clear();
    keep_.reset();
    before_.reset();
    again_ = 0;
    table_.reset();
    lock_.reset();
  }

  /// How far the table is. Loading, rows that are too many are dropped later, when the run goes on: a file that turns
  /// out not to fit drops none. Error [fulgurite.logger.rows_missing] where the table lacks rows.
  void state(auto& archive) {
    auto folder = folder_;
    long rows = keep_.value_or(rows_) - again_;
    bool told = keep_ ? told_then_ : told_;
    archive("folder", folder)("rows", rows);
    if constexpr (tells) archive("told", told);
    if (!archive.loading) return;
    keep_.reset();
    if (!is_open_in(folder)) return;
    if (rows < 0 || rows > rows_)
      throw Error("fulgurite.logger.rows_missing",
                  owner() + ": " + table_->path().string() + " has " + std::to_string(rows_) +
                      " rows, and the file that the run goes on from was written after " + std::to_string(rows) +
                      ": bring the table back, or move its folder away, so that the rows go on in a new one");
    keep_ = rows;
    told_then_ = told;
  }

  /// The run's folder, `lightning_logs/version_N`; empty before setup.
  std::filesystem::path const& log_dir() const { return folder_; }
  /// The folders of all runs that this logger has made, or may continue.
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const {
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

 protected:
  FolderLogger(std::filesystem::path save_dir, FolderOptions options, More more = {})
      : save_dir_(std::move(save_dir)), options_(std::move(options)), more_(std::move(more)) {
    check_folder(owner(), options_);
  }

  /// f(table), when all that comes before it in the file stands there.
  template <class F>
  void write(F&& f) {
    open();
    drop_rows();
    if constexpr (tells) {
      if (untold_ && !(goes_on_ && told_)) {
        table_->tell(*untold_);
        told_ = true;
      }
      untold_.reset();
    }
    f(*table_);
    rows_ = table_->rows();
  }
  /// Whether there is anything to be written to; an Error before the first run, when nobody knows of a folder yet.
  bool writes(char const* what) const {
    if (!begun_)
      throw Error("fulgurite.logger.no_run", owner() + ": " + what +
                                                 " was called before a run has begun, and so before there is a folder: "
                                                 "call it from a hook, or after the run");
    return !folder_.empty();
  }
  std::string prefixed(std::string_view name) const { return logger::prefixed(options_.prefix, name); }
  bool goes_on() const { return goes_on_; }
  static std::string owner() { return std::string(Table::owner); }

 private:
  static constexpr bool tells = requires(Table& table, std::vector<Hyperparameter> const& all) { table.tell(all); };

  std::filesystem::path root_of(TrainerOptions const& options) const {
    return folder_root(save_dir_, options_, options);
  }
  static bool is_same(std::filesystem::path const& a, std::filesystem::path const& b) {
    std::error_code missing;
    return a == b || std::filesystem::equivalent(a, b, missing);
  }
  bool is_open_in(std::filesystem::path const& folder) const { return table_ && is_same(folder, folder_); }
  std::filesystem::path new_folder(std::filesystem::path const& root) const {
    if constexpr (requires { Table::new_run(root, more_); }) return Table::new_run(root, more_);
    else return new_version(root);
  }
  /// A logger before this one has made the run's folder where this one would, and is of another kind.
  static bool may_share(std::filesystem::path const& folder, std::filesystem::path const& root) {
    std::error_code missing;
    return !folder.empty() && is_same(folder.parent_path(), root) &&
           !std::filesystem::exists(folder / Table::lock, missing);
  }

  /// A program that logs elsewhere by now does not write into the folders of another one.
  void go_on_in(auto& ctx, std::filesystem::path const& folder, std::filesystem::path const& root) {
    before_ = folder_;
    std::error_code missing;
    bool const is_there = std::filesystem::is_directory(folder, missing);
    if (is_there && is_same(folder.parent_path(), root)) {
      goes_on_ = true;
      folder_ = folder;
      lock_.reset();
      table_.reset();
      return;
    }
    folder_.clear();
    ctx.warn_each("fulgurite.logger.new_folder",
                  owner() + ": the run that goes on was logged in " + folder.string() +
                      (is_there ? ", which is not in " + root.string() : std::string(", which is not there")) +
                      ": its rows go on in a new folder");
  }

  void drop_rows() {
    if (!keep_) return;
    table_->keep(*keep_);
    keep_.reset();
    told_ = told_then_;
    rows_ = table_->rows();
  }

  void open() {
    if (!lock_ || !lock_->holds()) {
      file::make_folders(folder_);
      lock_.reset();
      lock_.emplace(folder_, Table::lock);
      std::error_code error;
      if (!std::filesystem::exists(folder_ / "hparams.yaml", error))
        write_durably(folder_ / "hparams.yaml", hyperparameters_);
    }
    if (table_) return;
    table_.emplace(folder_, more_);
    rows_ = table_->rows();
  }

  std::filesystem::path save_dir_;
  FolderOptions options_;
  More more_;
  std::filesystem::path folder_{};
  std::string hyperparameters_ = hparams_yaml({});
  std::filesystem::path continued_{};                           ///< of the run that the next fit goes on with
  std::optional<std::filesystem::path> before_ = std::nullopt;  ///< its folder before that one, until the fit is over
  long again_ = 0;                           ///< of the entries, which are of a window that is to be done again
  long rows_ = 0;                            ///< of the table, as it was last open
  std::optional<long> keep_ = std::nullopt;  ///< the rows that stay, when a row follows
  bool goes_on_ = false, trains_ = false, begun_ = false;
  std::optional<std::vector<Hyperparameter>> untold_ = std::nullopt;  ///< to the table, which hears of it with a row
  bool told_ = false, told_then_ = false;  ///< the table has hyper-parameters, as it is and when a file was written
  std::optional<VersionLock> lock_ = std::nullopt;
  std::optional<Table> table_ = std::nullopt;
};

}  // namespace fulgurite::logger
