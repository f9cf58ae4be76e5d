#pragma once
// What loggers that write into a run's folder have in common: what stands there, how a run goes on with it, and when
// rows are dropped. Which folder it is, is in chosen_folder.hpp.

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
#include <fulgurite/logger/chosen_folder.hpp>
#include <fulgurite/logger/folder_options.hpp>
#include <fulgurite/logger/hparams.hpp>
#include <fulgurite/logger/named_row.hpp>
#include <fulgurite/logger/version_lock.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/options_text.hpp>
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
    keep_.reset();
    again_ = 0;
    trains_ = false;
    begun_ = true;
    if (!folder_.choose(ctx, more_)) return;
    if (folder_.goes_on()) {
      lock_.reset();
      table_.reset();
    }
    open();
    ctx.set_log_dir(folder_.path());
    if (ctx.outcome().metrics_file.empty()) ctx.outcome().metrics_file = table_->path();
  }
  /// The folder of the run that the next fit goes on with, told before its setup.
  void continue_in(std::filesystem::path folder) { folder_.continue_in(std::move(folder)); }

  /// The fit has failed before it went on from its file: the folder is that of before, and no row is dropped.
  void do_not_continue() {
    keep_.reset();
    folder_.do_not_continue();
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
    if (!folder_.is_chosen()) return;
    write([&](Table& table) { table.add(NamedRow(row, step, folder_.options().prefix).cells()); });
  }

  void log_hyperparams(std::span<Hyperparameter const> parameters) {
    if (!folder_.is_chosen()) return;
    hyperparameters_ = hparams_yaml(parameters);
    if (!goes_on()) write_durably(folder_.path() / "hparams.yaml", hyperparameters_);
    if constexpr (tells) untold_.emplace(parameters.begin(), parameters.end());
  }
  /// describe.txt, the program that the trainer's types make, options.txt, what it was told, and system.txt, the
  /// machine, stand beside the rows, where report::html finds them. A run that goes on has those of its last fit, whose
  /// limits may be higher.
  template <class Whole>
  void log_program(std::type_identity<Whole> program, auto const& asked) {
    if (!folder_.is_chosen()) return;
    auto const text = report::program_text(program, asked.options, asked.optimization);
    auto folder = folder_.path();
    if constexpr (requires { Table::notes; }) folder /= Table::notes;
    report::put_notes(folder, text, report::options_text(asked.options, asked.optimization));
  }
  /// Releases the folder, so that another logger may use it. A further row takes it again.
  void finalize(auto status) {
    if (table_ && trains_) drop_rows();
    if (table_ && untold_) write([](Table&) {});
    if constexpr (requires(Table& table) { table.finish(status); })
      if (table_) table_->finish(status);
    folder_.end();
    keep_.reset();
    again_ = 0;
    table_.reset();
    lock_.reset();
  }

  /// How far the table is. Loading, rows that are too many are dropped later, when the run goes on: a file that turns
  /// out not to fit drops none. Error [fulgurite.logger.rows_missing] where the table lacks rows.
  void state(auto& archive) {
    auto folder = folder_.path();
    long rows = keep_.value_or(rows_) - again_;
    bool told = keep_ ? told_then_ : told_;
    archive("folder", folder)("rows", rows);
    if constexpr (tells) archive("told", told);
    if (!archive.loading) return;
    keep_.reset();
    if (!table_ || !folder_.is(folder)) return;
    if (rows < 0 || rows > rows_)
      throw Error("fulgurite.logger.rows_missing",
                  owner() + ": " + table_->path().string() + " has " + std::to_string(rows_) +
                      " rows, and the file that the run goes on from was written after " + std::to_string(rows) +
                      ": bring the table back, or move its folder away, so that the rows go on in a new one");
    keep_ = rows;
    told_then_ = told;
  }

  /// The run's folder, `lightning_logs/version_N`; empty before setup.
  std::filesystem::path const& log_dir() const { return folder_.path(); }
  /// The folders of all runs that this logger has made, or may continue.
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const {
    return folder_.earlier_runs(options);
  }

 protected:
  FolderLogger(std::filesystem::path save_dir, FolderOptions options, More more = {})
      : folder_(std::move(save_dir), std::move(options)), more_(std::move(more)) {}

  /// f(table), when all that comes before it in the file stands there.
  template <class F>
  void write(F&& f) {
    open();
    drop_rows();
    if constexpr (tells) {
      if (untold_ && !(goes_on() && told_)) {
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
    return folder_.is_chosen();
  }
  std::string prefixed(std::string_view name) const { return logger::prefixed(folder_.options().prefix, name); }
  bool goes_on() const { return folder_.goes_on(); }
  static std::string owner() { return std::string(Table::owner); }

 private:
  static constexpr bool tells = requires(Table& table, std::vector<Hyperparameter> const& all) { table.tell(all); };

  void drop_rows() {
    if (!keep_) return;
    table_->keep(*keep_);
    keep_.reset();
    told_ = told_then_;
    rows_ = table_->rows();
  }

  void open() {
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

  ChosenFolder<Table> folder_;
  More more_;
  std::string hyperparameters_ = hparams_yaml({});
  long again_ = 0;                           ///< of the entries, which are of a window that is to be done again
  long rows_ = 0;                            ///< of the table, as it was last open
  std::optional<long> keep_ = std::nullopt;  ///< the rows that stay, when a row follows
  bool trains_ = false, begun_ = false;
  std::optional<std::vector<Hyperparameter>> untold_ = std::nullopt;  ///< to the table, which hears of it with a row
  bool told_ = false, told_then_ = false;  ///< the table has hyper-parameters, as it is and when a file was written
  std::optional<VersionLock> lock_ = std::nullopt;
  std::optional<Table> table_ = std::nullopt;
};

}  // namespace fulgurite::logger
