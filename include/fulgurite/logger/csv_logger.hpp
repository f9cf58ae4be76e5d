#pragma once
// Writes metrics to a CSV file that spreadsheets and pandas read: <save_dir>/lightning_logs/version_N/metrics.csv.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/logger/csv_table.hpp>
#include <fulgurite/logger/folder_logger.hpp>

namespace fulgurite {

/// Which folder below save_dir belongs to the run, and what its columns are called.
struct CSVLoggerOptions {
  std::string name = "lightning_logs";  ///< a folder below save_dir, or several ("mlp/wide"); "" is save_dir itself
  /// Not given: one above the highest version in the folder. A version that exists is continued, and none of its rows
  /// is lost. A version that another logger of this kind is writing to, in this process or another, is an Error.
  std::optional<long> version = std::nullopt;
  std::string prefix = "";  ///< "a" turns "loss" into "a-loss"
};

namespace logger {

/// The table of a run's folder.
struct RunTable : CsvTable {
  static constexpr std::string_view owner = "CSVLogger", lock = ".lock";
  RunTable(std::filesystem::path const& folder, NothingMore const&) : CsvTable(folder / "metrics.csv") {}
  long before_last(long rows) const { return this->rows() - rows; }
};

}  // namespace logger

/// `CSVLogger{}`, `CSVLogger{"runs"}`, `CSVLogger{"runs", {.name = "mlp"}}`. Each call of `log_metrics` adds a row,
/// with the columns `epoch` and `step` among the metrics; the cell of a metric that a row lacks is empty. Every row is
/// handed to the kernel before the call returns (see logger::CsvTable). `hparams.yaml` lies beside the table. Only rank
/// 0 writes. A folder that is deleted during a call (fit, validate, test) is made again with the next row, and has all
/// rows and the hyper-parameters. A fit that goes on from a file goes on in the folder of its run, where no version is
/// given: rows that were written after the file are dropped with the first new one, which is said. A metrics.csv that
/// somebody else edits or replaces meanwhile is an Error [fulgurite.logger.table_changed] at the next row, and is not
/// written over.
class CSVLogger : public logger::FolderLogger<logger::RunTable> {
 public:
  explicit CSVLogger(std::filesystem::path save_dir = {}, CSVLoggerOptions options = {})
      : FolderLogger(std::move(save_dir), {std::move(options.name), options.version, std::move(options.prefix)}) {}
};

}  // namespace fulgurite
