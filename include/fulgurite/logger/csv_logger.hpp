#pragma once
// Writes metrics to a CSV file that spreadsheets and pandas read: <save_dir>/lightning_logs/version_N/metrics.csv.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/csv_table.hpp>
#include <fulgurite/logger/hparams.hpp>
#include <fulgurite/logger/version_folder.hpp>
#include <fulgurite/logger/version_lock.hpp>
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
/// rows and the hyper-parameters. A metrics.csv that somebody else edits or replaces meanwhile is an Error
/// [fulgurite.logger.table_changed] at the next row, and is not written over.
class CSVLogger {
 public:
  using Hooks = Implements<hook::setup>;
  static constexpr bool inert_in_dev_run = true;
  using Stateless = ByChoice;  // a resumed run gets a table of its own, unless it is given the version to continue

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
    if (ctx.rank() != 0 || ctx.dev_run()) return;
    if (folder_.empty()) {
      auto const root =
          ((save_dir_.empty() ? ctx.options().default_root_dir.path() : save_dir_) / options_.name).lexically_normal();
      if (options_.version) {
        folder_ = root / ("version_" + std::to_string(*options_.version));
        file::make_folders(folder_);
      } else {
        folder_ = logger::new_version(root);
      }
    }
    open();
    ctx.set_log_dir(folder_);
    if (ctx.outcome().metrics_file.empty()) ctx.outcome().metrics_file = table_->path();
  }

  void log_metrics(std::span<Scalar const> row, long step) {
    if (folder_.empty()) return;
    open();
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
  }

  void log_hyperparams(std::span<Hyperparameter const> parameters) {
    if (folder_.empty()) return;
    hyperparameters_ = logger::hparams_yaml(parameters);
    write_durably(folder_ / "hparams.yaml", hyperparameters_);
  }
  /// Releases the folder, so that another logger may use it. A further row takes it again.
  void finalize(auto /*status*/) {
    table_.reset();
    lock_.reset();
  }

  /// The run's folder, `lightning_logs/version_N`; empty before setup.
  std::filesystem::path const& log_dir() const { return folder_; }

 private:
  void open() {
    if (!lock_ || !lock_->holds()) {
      file::make_folders(folder_);
      lock_.reset();
      lock_.emplace(folder_);
      std::error_code error;
      if (!std::filesystem::exists(folder_ / "hparams.yaml", error))
        write_durably(folder_ / "hparams.yaml", hyperparameters_);
    }
    if (!table_) table_.emplace(folder_ / "metrics.csv");
  }

  std::filesystem::path save_dir_;
  CSVLoggerOptions options_;
  std::filesystem::path folder_{};
  std::string hyperparameters_ = logger::hparams_yaml({});
  std::optional<logger::VersionLock> lock_ = std::nullopt;
  std::optional<logger::CsvTable> table_ = std::nullopt;
};

}  // namespace fulgurite
