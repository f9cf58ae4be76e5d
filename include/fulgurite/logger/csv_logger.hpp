#pragma once
// Writes metrics to a CSV file that spreadsheets and pandas read: <save_dir>/lightning_logs/version_N/metrics.csv.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>

namespace fulgurite::logger {

// A CSV file of numbers that grows by rows and by columns and loses neither.

/// A table that grows by rows and by columns, which are sorted. What becomes of a row when the process is killed, and
/// of a file that is deleted or changed meanwhile, is GrowingFile's to say. A new column rewrites the file, durably:
/// the old one or the new one is there, never half of one.
class CsvTable {
 public:
  /// Opens a table. One that exists is continued.
  explicit CsvTable(std::filesystem::path path);

  void add(std::vector<Cell> const& cells);

  /// Drops all rows after the first `rows`, and the columns that only those had: the table is as it was when it had
  /// that many. Durably, as a new column is made.
  void keep(long rows);

  /// Waits until all rows are on the disk: a file that tells of them may be written then.
  void sync() const { file_.sync(); }

  long rows() const { return rows_; }

  std::filesystem::path const& path() const { return file_.path(); }
  std::vector<std::string> const& columns() const { return columns_; }

 private:
  static std::string row(std::vector<std::string> const& columns, std::vector<Cell> const& cells);

  /// f(cells) for the first rows of the file.
  template <class F>
  void each_row(long rows, F&& f) const {
    CsvReader in(file_.number(), path());
    std::vector<std::string> cells;
    in.next(cells);
    for (long i = 0; i < rows && in.next(cells); ++i) f(cells);
  }

  // The table is copied row by row, so that a long one need not fit into memory.
  void rewrite(std::vector<std::string> columns, std::vector<Cell> const& cells);

  GrowingFile file_;
  std::vector<std::string> columns_;
  long rows_ = 0;  ///< without the names of the columns
};

}  // namespace fulgurite::logger

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

FULGURITE_FOLDER_LOGGER(EXTERN, RunTable, NothingMore);

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
  explicit CSVLogger(std::filesystem::path save_dir = {}, CSVLoggerOptions options = {});
  FULGURITE_MOVES(CSVLogger);
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/csv_logger.ipp>
#endif
