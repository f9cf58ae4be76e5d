#pragma once
// Writes metrics to a CSV file that spreadsheets and pandas read: `<save_dir>/lightning_logs/version_N/metrics.csv`.

#include <compare>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>

namespace fulgurite::logger {

// A CSV file of numbers to which rows and columns can be added without losing any.

/// A table to which rows and columns are added; the columns are sorted. GrowingFile documents what happens to a row if
/// the process is killed, and to a file that is deleted or changed meanwhile. A new column rewrites the file durably:
/// after a crash there is the old file or the new one, never half of one.
class CsvTable {
 public:
  /// Opens a table. An existing table is continued.
  explicit CsvTable(std::filesystem::path path);

  void add(std::vector<Cell> const& cells);

  /// Drops all rows after the first `rows`, and the columns that only dropped rows had: the table is as it was with
  /// that many rows. A row with fewer cells than there are columns stays short, and one with more keeps them all. The
  /// file is replaced durably.
  void keep(long rows);

  /// Waits until all rows are on disk. Call it before a checkpoint that counts these rows is written.
  void sync() const { file_.sync(); }

  long rows() const { return rows_; }

  std::filesystem::path const& path() const { return file_.path(); }
  std::vector<std::string> const& columns() const { return columns_; }

 private:
  /// A column of a table that is rewritten: its name, and the number of the column that it was until now.
  struct Column {
    static constexpr auto added = std::numeric_limits<std::size_t>::max();  ///< for `was`: it is a new column
    std::string name;
    std::size_t was;
    auto operator<=>(Column const&) const = default;
  };

  /// The present columns.
  std::vector<Column> present_columns() const;

  /// Calls f(cells) for the first `rows` rows of the file.
  void each_row(long rows, FunctionRef<void(std::vector<std::string> const&)> f) const;

  /// Replaces the file by one with these columns, the first `rows` rows, and then a row of the cells in `last`, if it
  /// has any. Cells behind the last column stay behind it. The rows are copied one by one, so a long table need not fit
  /// into memory.
  void rewrite(std::vector<Column> const& columns, long rows, std::vector<Cell> const& last);

  GrowingFile file_;
  std::vector<std::string> columns_;
  long rows_ = 0;  ///< without the header
};

}  // namespace fulgurite::logger

namespace fulgurite {

/// Options of CSVLogger: which folder below save_dir belongs to the run, and the names of its columns.
struct CSVLoggerOptions {
  std::string name = "lightning_logs";  ///< a folder below save_dir, or several ("mlp/wide"); "" is save_dir itself
  /// Not given: one above the highest version in the folder. An existing version is continued, and none of its rows is
  /// lost. If another CSVLogger, in this process or another, is writing to that version, it is an Error
  /// [fulgurite.logger.version_in_use].
  std::optional<long> version = std::nullopt;
  std::string prefix = "";  ///< a prefix for names: "a" turns "loss" into "a-loss"
  // Refused, and last, so that a compiler prints its sentence first.
  [[no_unique_address]] elsewhere::SaveDir save_dir = {};  ///< the first argument
};

namespace logger {

/// The table in a run's folder.
struct RunTable : CsvTable {
  static constexpr std::string_view owner = "CSVLogger", lock = ".lock";
  RunTable(std::filesystem::path const& folder, NothingMore const&) : CsvTable(folder / "metrics.csv") {}
  long before_last(long rows) const { return this->rows() - rows; }
};

FULGURITE_FOLDER_LOGGER(EXTERN, RunTable, NothingMore);

}  // namespace logger

/// Logs metrics to a CSV table: `CSVLogger{}`, `CSVLogger{"runs"}`, `CSVLogger{"runs", {.name = "mlp"}}`. Each call of
/// `log_metrics` adds a row; `epoch` and `step` are columns, too. A cell is empty if the row lacks that metric. Each
/// row is handed to the kernel before the call returns (see logger::CsvTable). `hparams.yaml` is written to the same
/// folder. Only rank zero writes.
///
/// If the folder is deleted during a run (fit, validate, test), the next row makes it again, with all rows and the
/// hyper-parameters. If a fit resumes from a file and no version is given, it continues in the folder of its run: rows
/// that were written after the file are dropped with the first new row, which is a warning. If another program edits or
/// replaces metrics.csv meanwhile, the next row throws [fulgurite.logger.table_changed], and the file is not
/// overwritten.
class CSVLogger : public logger::FolderLogger<logger::RunTable> {
 public:
  explicit CSVLogger(std::filesystem::path save_dir = {}, CSVLoggerOptions options = {});
  explicit CSVLogger(CSVLoggerOptions const& options) : CSVLogger({}, options) {}
  FULGURITE_NAMED_OPTIONS(CSVLogger, std::filesystem::path const&);
  FULGURITE_MOVES(CSVLogger);
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/csv_logger.ipp>
#endif
