#pragma once
// Writes metrics to a CSV file that spreadsheets and pandas read: <save_dir>/lightning_logs/version_N/metrics.csv.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger {

// A CSV file of numbers that grows by rows and by columns and loses neither.

/// A table that grows by rows and by columns, which are sorted. What becomes of a row when the process is killed, and
/// of a file that is deleted or changed meanwhile, is GrowingFile's to say. A new column rewrites the file, durably:
/// the old one or the new one is there, never half of one.
class CsvTable {
 public:
  /// Opens a table. One that exists is continued.
  explicit CsvTable(std::filesystem::path path) : file_(std::move(path)) {
    if (!file_.is_there()) return;
    CsvReader in(file_.number(), this->path());
    std::vector<std::string> row;
    if (in.next(row) && (row.size() > 1 || !row.front().empty())) columns_ = row;
    while (in.next(row)) ++rows_;
    // A row that a power cut left unfinished is ended, so that the next one stands for itself.
    char last = '\n';
    if (file_.size() > 0) file::read_at(file_.number(), std::as_writable_bytes(std::span(&last, 1)), file_.size() - 1);
    if (last != '\n') file_.append("\n");
  }

  FULGURITE_COLD void add(std::vector<Cell> const& cells) {
    file_.require_ours();
    std::vector<std::string> columns = columns_;
    for (auto const& cell : cells)
      if (std::find(columns.begin(), columns.end(), cell.column) == columns.end()) columns.emplace_back(cell.column);
    if (columns.size() != columns_.size()) {
      sort_seldom(columns);
      rewrite(std::move(columns), cells);
    } else {
      file_.append(row(columns_, cells));
    }
    ++rows_;
  }

  /// Drops all rows after the first `rows`, and the columns that only those had: the table is as it was when it had
  /// that many. Durably, as a new column is made.
  FULGURITE_COLD void keep(long rows) {
    file_.require_ours();
    if (rows >= rows_) return;
    std::vector<bool> used(columns_.size());
    each_row(rows, [&](auto const& cells) {
      for (std::size_t i = 0; i < cells.size() && i < used.size(); ++i) used[i] = used[i] || !cells[i].empty();
    });
    auto const of_used = [&](std::vector<std::string> const& cells) {
      std::vector<std::string> left;
      for (std::size_t i = 0; i != cells.size(); ++i)
        if (i >= used.size() || used[i]) left.push_back(cells[i]);
      return left;
    };
    columns_ = of_used(columns_);
    DurableFile out(path());
    std::string block = columns_.empty() ? std::string() : csv_row(columns_);
    each_row(rows, [&](auto const& cells) {
      block += csv_row(of_used(cells));
      if (block.size() > 65536) out.write(std::exchange(block, {}));
    });
    out.write(block);
    out.commit();
    rows_ = rows;
    file_.open();
  }

  /// Waits until all rows are on the disk: a file that tells of them may be written then.
  void sync() const { file_.sync(); }

  long rows() const { return rows_; }

  std::filesystem::path const& path() const { return file_.path(); }
  std::vector<std::string> const& columns() const { return columns_; }

 private:
  FULGURITE_COLD static std::string row(std::vector<std::string> const& columns, std::vector<Cell> const& cells) {
    std::vector<std::string> texts(columns.size());
    for (auto const& cell : cells) {
      auto const at =
          static_cast<std::size_t>(std::find(columns.begin(), columns.end(), cell.column) - columns.begin());
      texts[at] = cell.whole ? std::to_string(static_cast<long long>(cell.value)) : report::exact(cell.value);
    }
    return csv_row(texts);
  }

  /// f(cells) for the first rows of the file.
  template <class F>
  void each_row(long rows, F&& f) const {
    CsvReader in(file_.number(), path());
    std::vector<std::string> cells;
    in.next(cells);
    for (long i = 0; i < rows && in.next(cells); ++i) f(cells);
  }

  // The table is copied row by row, so that a long one need not fit into memory.
  FULGURITE_COLD void rewrite(std::vector<std::string> columns, std::vector<Cell> const& cells) {
    DurableFile out(path());
    std::string block = csv_row(columns);
    std::vector<std::size_t> place;
    place.reserve(columns_.size());
    for (auto const& name : columns_)
      place.push_back(static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin()));
    if (!columns_.empty()) {
      CsvReader in(file_.number(), path());
      std::vector<std::string> old;
      in.next(old);
      while (in.next(old)) {
        std::vector<std::string> texts(columns.size());
        for (std::size_t i = 0; i < old.size() && i < place.size(); ++i) texts[place[i]] = old[i];
        block += csv_row(texts);
        if (block.size() > 65536) out.write(std::exchange(block, {}));
      }
    }
    out.write(block + row(columns, cells));
    out.commit();
    columns_ = std::move(columns);
    file_.open();
  }

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
