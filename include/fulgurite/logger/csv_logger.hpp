#pragma once
// Metrics as a CSV file that spreadsheets and pandas read: <save_dir>/lightning_logs/version_N/metrics.csv.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/csv_table.hpp>
#include <fulgurite/logger/hparams.hpp>
#include <fulgurite/logger/version_folder.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

/// Which folder below save_dir is the run's, and what its columns are called.
struct CSVLoggerOptions {
  std::string name = "lightning_logs";
  std::optional<long> version = std::nullopt;  ///< not given: one above the highest; one that exists is continued, no row of it is lost
  std::string prefix = "";                     ///< "a" turns "loss" into "a-loss"
};

/// `CSVLogger{}`, `CSVLogger{"runs"}`, `CSVLogger{"runs", {.name = "mlp"}}`. A row for each call of `log_metrics`, with the columns
/// `epoch` and `step` among the metrics; a metric that a row lacks leaves its cell empty. Every row is in the kernel's hands before
/// the call returns (see logger::CsvTable). Beside it `hparams.yaml`. Only rank 0 writes.
class CSVLogger {
 public:
  using Hooks = Implements<hook::setup>;
  static constexpr bool inert_in_dev_run = true;
  using Stateless = ByChoice;  // a resumed run gets a table of its own, unless it is given the version to continue

  explicit CSVLogger(std::filesystem::path save_dir = {}, CSVLoggerOptions options = {})
      : save_dir_(std::move(save_dir)), options_(std::move(options)) {}

  void setup(auto& ctx) {
    if (ctx.rank() != 0 || ctx.dev_run()) return;
    if (!table_) {
      auto const root = ((save_dir_.empty() ? ctx.options().default_root_dir.path() : save_dir_) / options_.name).lexically_normal();
      if (options_.version) {
        folder_ = root / ("version_" + std::to_string(*options_.version));
        logger::make_folders(folder_);
      } else {
        folder_ = logger::new_version(root);
      }
      table_.emplace(folder_ / "metrics.csv");
      if (!std::filesystem::exists(folder_ / "hparams.yaml")) log_hyperparams({});
    }
    ctx.set_log_dir(folder_);
    if (ctx.outcome().metrics_file.empty()) ctx.outcome().metrics_file = table_->path();
  }

  void log_metrics(std::span<Scalar const> row, long step) {
    if (!table_) return;
    std::vector<std::string> names;  // owns the prefixed names while the cells point to them
    names.reserve(row.size());
    std::vector<logger::Cell> cells{{"step", static_cast<double>(step), true}};
    for (auto const& scalar : row) {
      bool const counter = scalar.name == "epoch";
      if (scalar.name == "step") {  // as in Lightning, a metric of that name replaces the axis
        cells.front() = {"step", scalar.value, false};
        continue;
      }
      names.push_back(counter || options_.prefix.empty() ? std::string(scalar.name) : options_.prefix + "-" + std::string(scalar.name));
      cells.push_back({names.back(), scalar.value, counter});
    }
    table_->add(cells);
  }

  void log_hyperparams(std::span<Hyperparameter const> parameters) {
    if (table_) write_durably(folder_ / "hparams.yaml", logger::hparams_yaml(parameters));
  }

  /// `lightning_logs/version_N`; empty before setup.
  std::filesystem::path const& log_dir() const { return folder_; }

 private:
  std::filesystem::path save_dir_;
  CSVLoggerOptions options_;
  std::filesystem::path folder_{};
  std::optional<logger::CsvTable> table_ = std::nullopt;
};

}  // namespace fulgurite
