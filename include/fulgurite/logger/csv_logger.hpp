#pragma once
// Writes metrics to a CSV file that spreadsheets and pandas read: <save_dir>/lightning_logs/version_N/metrics.csv.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/csv_table.hpp>
#include <fulgurite/logger/hparams.hpp>
#include <fulgurite/logger/version_folder.hpp>
#include <fulgurite/logger/version_lock.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

/// Which folder below save_dir belongs to the run, and what its columns are called.
struct CSVLoggerOptions {
  std::string name = "lightning_logs";  ///< a folder below save_dir, or several ("mlp/wide"); "" is save_dir itself
  /// Not given: one above the highest version in the folder. A version that exists is continued, and none of its rows
  /// is lost. A version that another logger is writing to, in this process or another, is an Error.
  std::optional<long> version = std::nullopt;
  std::string prefix = "";  ///< "a" turns "loss" into "a-loss"
};

/// `CSVLogger{}`, `CSVLogger{"runs"}`, `CSVLogger{"runs", {.name = "mlp"}}`. Each call of `log_metrics` adds a row,
/// with the columns `epoch` and `step` among the metrics; the cell of a metric that a row lacks is empty. Every row is
/// handed to the kernel before the call returns (see logger::CsvTable). `hparams.yaml` lies beside the table. Only rank
/// 0 writes. A folder that is deleted during a call (fit, validate, test) is made again with the next row, and has all
/// rows and the hyper-parameters. A fit that goes on from a file goes on in the folder of its run, where no version is
/// given: rows that were written after the file are dropped with the first new one, which is said. A metrics.csv that
/// somebody else edits or replaces meanwhile is an Error [fulgurite.logger.table_changed] at the next row, and is not
/// written over.
class CSVLogger {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::before_save>;
  static constexpr bool inert_in_dev_run = true;

  explicit CSVLogger(std::filesystem::path save_dir = {}, CSVLoggerOptions options = {})
      : save_dir_(std::move(save_dir)), options_(std::move(options)) {
    auto const name = std::filesystem::path(options_.name).lexically_normal();
    if (name.has_root_path() || (!name.empty() && *name.begin() == "..") ||
        options_.name.find('\0') != std::string::npos)
      throw Error("fulgurite.logger.name",
                  "CSVLogger: the name '" + options_.name.substr(0, options_.name.find('\0')) +
                      "' leads out of save_dir: give a folder below it, and the rest of the way as save_dir");
    if (options_.version && *options_.version < 0)
      throw Error("fulgurite.logger.version",
                  "CSVLogger: version = " + std::to_string(*options_.version) + ": versions begin with 0");
  }

  void setup(auto& ctx) {
    auto const earlier = std::exchange(continued_, {});
    keep_.reset();
    before_.reset();
    again_ = 0;
    trains_ = goes_on_ = false;
    if (ctx.rank() != 0 || ctx.dev_run()) return;
    auto const root = root_of(ctx.options());
    if (!earlier.empty() && !options_.version) go_on_in(ctx, earlier, root);
    if (folder_.empty() && options_.version) {
      folder_ = root / ("version_" + std::to_string(*options_.version));
      file::make_folders(folder_);
    } else if (folder_.empty()) {
      folder_ = logger::new_version(root);
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
  void expect_again(long rows) { again_ = rows; }

  void on_train_start(auto& ctx) {
    trains_ = true;
    if (keep_ && *keep_ < rows_)
      ctx.warn_each("fulgurite.logger.rows_dropped", "CSVLogger: the last " + std::to_string(rows_ - *keep_) +
                                                         " rows of " + table_->path().string() +
                                                         " are of a run that went further than the file which this one "
                                                         "goes on from: they will be dropped when it goes on");
  }
  /// A file tells how many rows there are, so they are on the disk before it.
  void before_save(auto&) {
    if (table_) table_->sync();
  }

  FULGURITE_COLD void log_metrics(std::span<Scalar const> row, long step) {
    if (folder_.empty()) return;
    open();
    drop_rows();
    std::vector<std::string> names;  // owns the prefixed names while the cells point to them
    names.reserve(row.size());
    std::vector<logger::Cell> cells{{"step", static_cast<double>(step), true}};
    for (auto const& scalar : row) {
      bool const counter = scalar.name == "epoch";
      if (scalar.name == "step") {  // as in Lightning, a metric of that name replaces the axis
        cells.front() = {"step", scalar.value, false};
        continue;
      }
      names.push_back(counter || options_.prefix.empty() ? std::string(scalar.name)
                                                         : options_.prefix + "-" + std::string(scalar.name));
      cells.push_back({names.back(), scalar.value, counter});
    }
    table_->add(cells);
    rows_ = table_->rows();
  }

  void log_hyperparams(std::span<Hyperparameter const> parameters) {
    if (folder_.empty()) return;
    hyperparameters_ = logger::hparams_yaml(parameters);
    if (!goes_on_) write_durably(folder_ / "hparams.yaml", hyperparameters_);
  }
  /// Releases the folder, so that another logger may use it. A further row takes it again.
  void finalize(auto /*status*/) {
    if (table_ && trains_) drop_rows();
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
    archive("folder", folder)("rows", rows);
    if (!archive.loading) return;
    keep_.reset();
    if (!is_open_in(folder)) return;
    if (rows < 0 || rows > rows_)
      throw Error("fulgurite.logger.rows_missing",
                  "CSVLogger: " + table_->path().string() + " has " + std::to_string(rows_) +
                      " rows, and the file that the run goes on from was written after " + std::to_string(rows) +
                      ": bring the table back, or move its folder away, so that the rows go on in a new one");
    keep_ = rows;
  }

  /// The run's folder, `lightning_logs/version_N`; empty before setup.
  std::filesystem::path const& log_dir() const { return folder_; }
  /// The folders of all runs that this logger has made, or may continue.
  FULGURITE_COLD std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const {
    std::vector<std::filesystem::path> folders;
    logger::each_version(root_of(options), [&](long number, std::filesystem::path const& folder) {
      if (!options_.version || *options_.version == number) folders.push_back(folder);
    });
    return folders;
  }

 private:
  std::filesystem::path root_of(TrainerOptions const& options) const {
    return ((save_dir_.empty() ? options.default_root_dir.path() : save_dir_) / options_.name).lexically_normal();
  }
  static bool is_same(std::filesystem::path const& a, std::filesystem::path const& b) {
    std::error_code missing;
    return a == b || std::filesystem::equivalent(a, b, missing);
  }
  bool is_open_in(std::filesystem::path const& folder) const { return table_ && is_same(folder, folder_); }

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
                  "CSVLogger: the run that goes on was logged in " + folder.string() +
                      (is_there ? ", which is not in " + root.string() : std::string(", which is not there")) +
                      ": its rows go on in a new folder");
  }

  void drop_rows() {
    if (!keep_) return;
    table_->keep(*keep_);
    keep_.reset();
    rows_ = table_->rows();
  }

  FULGURITE_COLD void open() {
    if (!lock_ || !lock_->holds()) {
      file::make_folders(folder_);
      lock_.reset();
      lock_.emplace(folder_);
      std::error_code error;
      if (!std::filesystem::exists(folder_ / "hparams.yaml", error))
        write_durably(folder_ / "hparams.yaml", hyperparameters_);
    }
    if (table_) return;
    table_.emplace(folder_ / "metrics.csv");
    rows_ = table_->rows();
  }

  std::filesystem::path save_dir_;
  CSVLoggerOptions options_;
  std::filesystem::path folder_{};
  std::string hyperparameters_ = logger::hparams_yaml({});
  std::filesystem::path continued_{};                           ///< of the run that the next fit goes on with
  std::optional<std::filesystem::path> before_ = std::nullopt;  ///< its folder before that one, until the fit is over
  long again_ = 0;                           ///< of the rows, which are of a window that is to be done again
  long rows_ = 0;                            ///< of the table, as it was last open
  std::optional<long> keep_ = std::nullopt;  ///< the rows that stay, when a row follows
  bool goes_on_ = false, trains_ = false;
  std::optional<logger::VersionLock> lock_ = std::nullopt;
  std::optional<logger::CsvTable> table_ = std::nullopt;
};

}  // namespace fulgurite
