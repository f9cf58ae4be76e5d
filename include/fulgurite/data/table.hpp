#pragma once
// A table with types: columns of numbers and columns of categories; both may have missing values.

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
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

// Reads tables of text: one row per line, with fields between separators, and quoted if they contain one (RFC 4180).

/// How a table file is read, and how large it may be.
struct CsvOptions {
  char separator = ',';  ///< between two fields of a line
  bool header = true;    ///< the first line has the names of the columns; false: they are "0", "1", ...
  std::size_t most_bytes = std::size_t{1} << 30;  ///< largest size of the file, unpacked
  std::size_t most_columns = 4096;                ///< a row with more is an Error
};

/// The fields of a table as written in the file, row by row. They are views of a text that copies of this object share.
struct CsvFile {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::string_view> fields;
  std::vector<std::size_t> lines;  ///< the line at which each row begins in the file, from 1
  std::shared_ptr<std::string const> text;

  std::size_t rows() const { return lines.size(); }
  std::string_view field(std::size_t row, std::size_t column) const;
};

/// Reads a table from memory. Any bytes are safe input.
class CsvReader {
 public:
  CsvReader(std::string name, CsvOptions options);

  /// An empty line is a row of empty fields, except before the header and at the end of a table of several columns.
  /// Throws [fulgurite.data.csv], with file and line, for a row with more or fewer fields than the first, an
  /// unterminated quote, two columns of one name, a table without rows, empty lines that would make more fields than
  /// the file has bytes, or a table beyond the options' bounds.
  CsvFile read(std::string text);

 private:
  /// Empty lines are rows without values: dropping one would shift a time series, or the rows of predictions, by a row.
  /// Before the column names and, unless there is only one column, at the end of the file they are not rows. A field in
  /// the file takes at least one byte, but all fields of an empty line together take only one. They therefore need a
  /// bound: the size of the file, or a fixed number for small files.
  void add_empty(CsvFile& file, std::size_t bytes);

  void name_columns(CsvFile& file, std::vector<std::string_view> const& row) const;

  /// Reads the fields of the next line that is not empty; returns false at the end. Quoted text is moved towards the
  /// front of the text, over characters that were read already, without its quotes.
  bool next_row(std::string& text, std::vector<std::string_view>& row);
  /// Reads a field; returns true if another one follows in this row.
  bool next_field(std::string& text);
  void in_quotes(std::string& text);

  [[noreturn]] void refuse(std::size_t line, std::string const& what) const;

  std::string name_;
  CsvOptions options_;
  std::size_t at_ = 0, write_ = 0, line_ = 1, began_ = 1;
  std::vector<std::size_t> empty_{};  // empty lines since the last row
};

/// Reads a CSV file, plain or compressed by gzip: `read_csv("houses.csv")`. Errors: fulgurite.data.file, .gzip or .csv.
CsvFile read_csv(std::filesystem::path const& path, CsvOptions options = {});

/// The meaning of a table's fields. Spaces and tabs around them are ignored.
struct TableTypes {
  std::vector<std::string> categories = {};  ///< columns that hold categories although they look like numbers
  std::vector<std::string> leave_out = {};   ///< columns that are not read
  std::vector<std::string> missing = {"", "NA", "N/A", "nan", "NaN", "null", "?"};  ///< texts for a missing value
};

/// How to read a file whose columns are known, saved in checkpoints: see TableInputs. The bounds are not saved: they
/// are those of the program, or the defaults.
struct TableReading {
  std::vector<std::string> missing = TableTypes{}.missing;
  std::string separator = ",";
  bool header = true;
  std::size_t most_bytes = CsvOptions{}.most_bytes;
  std::size_t most_columns = CsvOptions{}.most_columns;

  CsvOptions csv() const;
  void state(auto& archive);
};
/// The options that apply to a file whose columns are known.
TableReading reading_of(TableTypes const& types, CsvOptions const& csv);

/// A column: `numbers`, with NaN for a missing value, or else the positions of its values in `labels`, with -1 for a
/// missing value.
struct TableColumn {
  std::string name;
  bool is_number = true;
  std::vector<double> numbers = {};
  std::vector<long> values = {};
  std::vector<std::string> labels = {};  ///< sorted

  bool is_missing(std::size_t row) const;
  /// The category of a row; nothing if it is missing.
  std::optional<std::string_view> label(std::size_t row) const;
};

/// Columns of equally many rows.
struct Table {
  std::string name;  ///< the name of the file
  std::vector<TableColumn> columns = {};
  std::vector<std::size_t> lines = {};  ///< the line of each row in the file

  std::size_t rows() const { return lines.size(); }
  TableColumn const* find(std::string_view column) const;
  /// Throws [fulgurite.data.column], with a list of the existing columns.
  TableColumn const& column(std::string_view wanted) const;
};

/// A value as a float. Throws [fulgurite.data.too_large], with line and column, if a float cannot hold it.
float as_float(double value, Table const& table, TableColumn const& column, std::size_t row);

namespace typing {

/// The text without the spaces and tabs around it.
std::string_view trimmed(std::string_view text);

/// The whole text as a finite number; nothing if it is not one.
std::optional<double> number_of(std::string_view text);

/// Throws for row `wrong`, the first without a number, in a column in which at least half of the values are numbers:
/// such a column is more often damaged than categorical.
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

/// Gives the columns of a file their types: numbers if all values that are present are numbers, categories if less than
/// half are. Errors: [fulgurite.data.column] if the types name a column that does not exist, and
/// [fulgurite.data.column_type], with line and value, if only most values of a column are numbers.
Table typed(CsvFile const& file, TableTypes const& types = {});

/// Reads a table with types: `read_table("houses.csv", {.categories = {"zip"}})`. Errors: those of read_csv and typed.
Table read_table(std::filesystem::path const& path, TableTypes const& types = {}, CsvOptions options = {});

// Mean and standard deviation of columns of numbers, fitted on some of their rows.

/// Scales a column of numbers to mean 0 and standard deviation 1 on the rows that it was fitted on. A column that is
/// constant up to rounding gets deviation 1.
struct Standardization {
  double mean = 0, deviation = 1;

  double operator()(double value) const;
  double back(double standardized) const { return standardized * deviation + mean; }

  bool operator==(Standardization const&) const = default;
  void state(auto& archive);
};

/// Fits `count` numbers, value(0) to value(count - 1), ignoring NaN. Numbers whose squares overflow or underflow a
/// double are scaled by a power of two, which is exact.
Standardization standardization_of(std::size_t count, auto const& value) {
  using Limits = std::numeric_limits<double>;
  double least = Limits::infinity(), most = -least;
  std::size_t known = 0;
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) ++known, least = std::min(least, v), most = std::max(most, v);
  if (known == 0) return {};
  if (least == most) return {least, 1};  // the sum of equal numbers may round, and leave a deviation that is only noise
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

/// How one column becomes features. Numbers: one standardised feature, 0 if missing, and, if training rows lacked some,
/// a second feature that is 1 if the number is missing. Categories: one feature for each category in the training rows;
/// all are 0 if the value is missing or new.
struct ColumnEncoding {
  std::string name;
  bool is_number = true, flags_missing = false;
  Standardization standard = {};
  std::vector<std::string> labels = {};

  std::size_t width() const;
  void state(auto& archive);
};

/// The encoding of a table's columns, which a checkpoint saves:
///
///     data::TableEncoding const encoding(table, parts.train, "price");
///     std::vector<float> features(table.rows() * encoding.width());
///     encoding.encode(table, features.data());
class TableEncoding {
 public:
  TableEncoding() = default;
  /// Fits the encoding of all columns but `target` on these rows.
  TableEncoding(Table const& table, std::span<std::size_t const> rows, std::string_view target);

  /// The number of features in a row.
  std::size_t width() const;
  /// The names of the features: `area`, `area is missing`, `zip = 8001`.
  std::vector<std::string> features() const;
  std::vector<ColumnEncoding> const& columns() const { return columns_; }

  /// How to read the columns of another file; columns without an encoding are left out.
  TableTypes types_of(CsvFile const& file, std::vector<std::string> missing) const;

  /// Writes rows() x width() numbers, row by row. Errors: [fulgurite.data.column] if the table lacks a column,
  /// [fulgurite.data.column_type], with the line, if it has text where numbers are expected, and
  /// [fulgurite.data.too_large] for a standardised number that a float cannot hold.
  void encode(Table const& table, float* into) const;

  /// When loading into an encoding that has columns already, the columns and their numbers of features must be the
  /// same. Throws [fulgurite.data.table_changed].
  void state(auto& archive);

 private:
  static ColumnEncoding learned(TableColumn const& column, std::span<std::size_t const> rows);

  static void one(ColumnEncoding const& encoding, Table const& table, TableColumn const& column, std::size_t row,
                  float* into);

  [[noreturn]] static void refuse_text(Table const& table, TableColumn const& column);

  std::vector<ColumnEncoding> columns_;
};

/// Window i has the time steps i * stride to i * stride + length - 1, and predicts the `horizon` steps after them.
struct WindowShape {
  long length = 32;
  long horizon = 1;
  long stride = 1;

  /// The number of time steps in a window and its horizon.
  long span() const { return length + horizon; }
};

/// Splits the windows of a series of `steps` time steps by time: validation gets the end of the series. No time step is
/// in windows of both parts, neither as input nor as target, so windows across the border are left out. Throws
/// [fulgurite.data.windows] for a shape out of range, or a part without windows.
Split split_windows(std::size_t steps, WindowShape const& shape, Share validation);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/table.ipp>
#endif
