#pragma once
// A table with types: columns of numbers, and columns of categories; either may lack values.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

// Reads tables of text: one row a line, fields between separators, in quotes where they hold one (RFC 4180).

/// How a file of a table is read, and how much of it at most.
struct CsvOptions {
  char separator = ',';  ///< between two fields of a line
  bool header = true;    ///< the first line has the names of the columns; else they are "0", "1", ...
  std::size_t most_bytes = std::size_t{1} << 30;  ///< of the file, unpacked
  std::size_t most_columns = 4096;                ///< a row with more is an Error
};

/// The fields of a table as they stand in the file, row by row. They look into a text that copies share.
struct CsvFile {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::string_view> fields;
  std::vector<std::size_t> lines;  ///< where each row begins in the file, from 1
  std::shared_ptr<std::string const> text;

  std::size_t rows() const { return lines.size(); }
  std::string_view field(std::size_t row, std::size_t column) const;
};

/// Reads a table from memory. Any bytes are safe input.
class CsvReader {
 public:
  CsvReader(std::string name, CsvOptions options);

  /// An empty line is a row of empty fields; before the header, and at the end of a table of several columns, it is
  /// none. Error [fulgurite.data.csv], with file and line: a row with more or fewer fields than the first, a quote that
  /// does not end, two columns of one name, a table without rows, empty lines
  /// that would be more fields than the file has bytes, or a table beyond the options' bounds.
  CsvFile read(std::string text);

 private:
  /// Empty lines are rows without values: to drop one would move a time series, or the rows of predictions, by a row.
  /// Before the names of the columns and, unless there is one column alone, at the end of the file they are no rows.
  /// A field that is in the file takes a byte at least, and those of an empty line take one together, so that they need
  /// a bound: the bytes of the file, or as many as a small file may have without harm.
  void add_empty(CsvFile& file, std::size_t bytes);

  void name_columns(CsvFile& file, std::vector<std::string_view> const& row) const;

  /// The fields of the next line that is not empty; false at the end. What was in quotes is moved to the front of the
  /// text that was read already, without them.
  bool next_row(std::string& text, std::vector<std::string_view>& row);
  /// Whether another field follows in this row.
  bool next_field(std::string& text);
  void in_quotes(std::string& text);

  [[noreturn]] void refuse(std::size_t line, std::string const& what) const;

  std::string name_;
  CsvOptions options_;
  std::size_t at_ = 0, write_ = 0, line_ = 1, began_ = 1;
  std::vector<std::size_t> empty_{};  // lines since the last row
};

/// Reads such a file, plain or compressed by gzip: `read_csv("houses.csv")`. Errors: fulgurite.data.file, .gzip or
/// .csv.
CsvFile read_csv(std::filesystem::path const& path, CsvOptions options = {});

/// What the fields of a table mean, which are read without the spaces and tabs around them.
struct TableTypes {
  std::vector<std::string> categories = {};  ///< columns that hold categories although they look like numbers
  std::vector<std::string> leave_out = {};   ///< columns that are not read
  std::vector<std::string> missing = {"", "NA", "N/A", "nan", "NaN", "null", "?"};  ///< how a missing value is written
};

/// How a file is read of which the columns are known, as a checkpoint keeps it: see TableInputs.
struct TableReading {
  std::vector<std::string> missing = TableTypes{}.missing;
  std::string separator = ",";
  bool header = true;

  CsvOptions csv() const;
  void state(auto& archive);
};
/// The part of these options that such a file needs.
TableReading reading_of(TableTypes const& types, CsvOptions const& csv);

/// A column: `numbers`, where a missing one is NaN, or else the positions of its values in `labels`, -1 where missing.
struct TableColumn {
  std::string name;
  bool is_number = true;
  std::vector<double> numbers = {};
  std::vector<long> values = {};
  std::vector<std::string> labels = {};  ///< sorted

  bool is_missing(std::size_t row) const;
  /// The category of a row; nothing where it is missing.
  std::optional<std::string_view> label(std::size_t row) const;
};

/// Columns of equally many rows.
struct Table {
  std::string name;  ///< of the file
  std::vector<TableColumn> columns = {};
  std::vector<std::size_t> lines = {};  ///< where each row stands in the file

  std::size_t rows() const { return lines.size(); }
  TableColumn const* find(std::string_view column) const;
  /// Error [fulgurite.data.column], with the columns that there are.
  TableColumn const& column(std::string_view wanted) const;
};

namespace typing {
/// A number for an Error.
std::string shown(double value);
}  // namespace typing

/// A value as a float. Error [fulgurite.data.too_large], with line and column, where a float cannot hold it.
float as_float(double value, Table const& table, TableColumn const& column, std::size_t row);

namespace typing {

/// Without the spaces and tabs around it.
std::string_view trimmed(std::string_view text);

/// The whole of a text as a finite number.
std::optional<double> number_of(std::string_view text);

/// Refuses row `wrong`, the first that has no number, in a column where at least half of the values are numbers: such a
/// one is damaged more often than it holds categories.
void refuse_odd_cell(CsvFile const& file, std::size_t at, std::size_t wrong, auto const& is_missing) {
  std::size_t known = 0, numbers = 0;
  for (std::size_t row = 0; row != file.rows(); ++row)
    if (auto const field = trimmed(file.field(row, at)); !is_missing(field))
      ++known, numbers += number_of(field).has_value();
  if (2 * numbers < known) return;
  throw Error("fulgurite.data.column_type",
              file.name + ": line " + std::to_string(file.lines[wrong]) + " has '" +
                  std::string(trimmed(file.field(wrong, at))) + "' in the column '" + file.columns[at] + "', where " +
                  std::to_string(numbers) + " of " + std::to_string(known) +
                  " values are numbers: mend the line, or name the column in .categories, or the value in .missing");
}

TableColumn column_of(CsvFile const& file, std::size_t at, TableTypes const& types);

}  // namespace typing

/// Gives the columns of a file their types: numbers where all values that are there are numbers, categories where less
/// than half are. Errors: [fulgurite.data.column] where the types name a column that is not there, and
/// [fulgurite.data.column_type], with line and value, where a column has numbers for the most part.
Table typed(CsvFile const& file, TableTypes const& types = {});

/// `read_table("houses.csv", {.categories = {"zip"}})`. Errors: those of read_csv and typed.
Table read_table(std::filesystem::path const& path, TableTypes const& types = {}, CsvOptions options = {});

// Mean and spread of columns of numbers, learned from some of their rows.

/// What takes a column of numbers to mean 0 and standard deviation 1, as it was on the rows that it was learned from. A
/// column that is the same everywhere, but for the rounding of its numbers, has deviation 1.
struct Standardization {
  double mean = 0, deviation = 1;

  double operator()(double value) const;
  double back(double standardized) const { return standardized * deviation + mean; }

  bool operator==(Standardization const&) const = default;
  void state(auto& archive);
};

/// Learned from `count` numbers, value(0) to value(count - 1); those that are NaN do not count. Numbers whose squares
/// no double holds are scaled by a power of two, which rounds nothing.
Standardization standardization_of(std::size_t count, auto const& value) {
  using Limits = std::numeric_limits<double>;
  double least = Limits::infinity(), most = -least;
  std::size_t known = 0;
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) ++known, least = std::min(least, v), most = std::max(most, v);
  if (known == 0) return {};
  if (least == most) return {least, 1};  // whose sum may round, and leave a deviation that is nothing but noise
  double const largest = std::max(std::abs(least), std::abs(most));
  double const scale = largest > 1e100 ? 0x1p-600 : largest < 1e-100 ? 0x1p+600 : 1;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) sum += v * scale;
  double const mean = sum / static_cast<double>(known);
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) squares += (v * scale - mean) * (v * scale - mean);
  double const deviation = std::sqrt(squares / static_cast<double>(known));
  bool const varies = deviation > 8 * Limits::epsilon() * std::abs(mean);
  return {mean / scale, varies ? deviation / scale : 1};
}

/// How one column becomes features. Numbers: standardised, 0 where missing, and a second feature that is 1 where they
/// are missing, if training rows lacked some. Categories: one feature for each that training rows have; all are 0 where
/// the value is missing or new.
struct ColumnEncoding {
  std::string name;
  bool is_number = true, tells_missing = false;
  Standardization standard = {};
  std::vector<std::string> labels = {};

  std::size_t width() const;
  void state(auto& archive);
};

/// The encoding of a table's columns, which a checkpoint keeps.
class TableEncoding {
 public:
  TableEncoding() = default;
  /// Learned from these rows of all columns but `target`.
  TableEncoding(Table const& table, std::span<std::size_t const> rows, std::string_view target);

  /// Features of a row.
  std::size_t width() const;
  /// What they are called: `area`, `area is missing`, `zip = 8001`.
  std::vector<std::string> features() const;
  std::vector<ColumnEncoding> const& columns() const { return columns_; }

  /// How the columns of another file have to be read; those that are not encoded are left out.
  TableTypes types_of(CsvFile const& file, std::vector<std::string> missing) const;

  /// Writes rows() x width() numbers, row by row. Errors: [fulgurite.data.column] where the table lacks a column,
  /// [fulgurite.data.column_type], with the line, where it has text in place of numbers, and [fulgurite.data.too_large]
  /// for a number that a float cannot hold, standardised.
  void encode(Table const& table, float* into) const;

  /// Loading, the columns have to be those of before, with as many features, where there are any. Error
  /// [fulgurite.data.table_changed].
  void state(auto& archive);

 private:
  static ColumnEncoding learned(TableColumn const& column, std::span<std::size_t const> rows);

  static void one(ColumnEncoding const& encoding, Table const& table, TableColumn const& column, std::size_t row,
                  float* into);

  [[noreturn]] static void refuse_text(Table const& table, TableColumn const& column);

  std::vector<ColumnEncoding> columns_;
};

/// Window i has the time steps i * stride to i * stride + length - 1, and predicts the `horizon` after them.
struct WindowShape {
  long length = 32;
  long horizon = 1;
  long stride = 1;

  /// Time steps of a window and its horizon.
  long span() const { return length + horizon; }
};

/// The windows of a series of `steps` time steps, parted in time: validation has the end of the series. No time step is
/// in windows of both parts, neither as what is seen nor as what is predicted, so windows across the border are left
/// out. Error [fulgurite.data.windows] for a shape that makes no sense, or a part that has no window.
Split split_windows(std::size_t steps, WindowShape const& shape, Share validation);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/table.ipp>
#endif
