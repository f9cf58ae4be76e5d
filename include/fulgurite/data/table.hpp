#pragma once
// A table with types: columns of numbers, and columns of categories; either may lack values.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/file.hpp>
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
  std::string_view field(std::size_t row, std::size_t column) const { return fields[row * columns.size() + column]; }
};

/// Reads a table from memory. Any bytes are safe input.
class CsvReader {
 public:
  CsvReader(std::string name, CsvOptions options) : name_(std::move(name)), options_(options) {}

  /// An empty line is a row of empty fields; before the header, and at the end of a table of several columns, it is
  /// none. Error [fulgurite.data.csv], with file and line: a row with more or fewer fields than the first, a quote that
  /// does not end, two columns of one name, a table without rows, empty lines
  /// that would be more fields than the file has bytes, or a table beyond the options' bounds.
  FULGURITE_BULK CsvFile read(std::string text) {
    auto const kept = std::make_shared<std::string>(std::move(text));
    if (kept->starts_with("\xEF\xBB\xBF")) at_ = write_ = 3;  // the mark with which Windows begins UTF-8
    CsvFile file{name_, {}, {}, {}, kept};
    std::vector<std::string_view> row;
    while (next_row(*kept, row)) {
      if (file.columns.empty()) {
        name_columns(file, row);
        if (options_.header) {
          empty_.clear();
          continue;
        }
      }
      if (row.size() != file.columns.size())
        refuse(began_, "has " + std::to_string(row.size()) + " fields, and the table has " +
                           std::to_string(file.columns.size()) + " columns: mend the line");
      add_empty(file, kept->size());
      file.fields.insert(file.fields.end(), row.begin(), row.end());
      file.lines.push_back(began_);
    }
    if (file.columns.size() == 1) add_empty(file, kept->size());
    if (file.lines.empty()) refuse(line_, "is the end, and there was no row: name a file with some");
    return file;
  }

 private:
  /// Empty lines are rows without values: to drop one would move a time series, or the rows of predictions, by a row.
  /// Before the names of the columns and, unless there is one column alone, at the end of the file they are no rows.
  /// A field that is in the file takes a byte at least, and those of an empty line take one together, so that they need
  /// a bound: the bytes of the file, or as many as a small file may have without harm.
  FULGURITE_BULK void add_empty(CsvFile& file, std::size_t bytes) {
    std::size_t const most = std::max(bytes, std::size_t{1} << 20), columns = file.columns.size();
    if (!empty_.empty() && empty_.size() > (most - std::min(most, file.fields.size())) / columns)
      refuse(empty_.front(), "is empty, and so are many others: as rows of " + std::to_string(columns) +
                                 " columns they would be more fields than the file has bytes; remove the empty lines");
    for (auto const line : empty_) {
      file.fields.resize(file.fields.size() + file.columns.size());
      file.lines.push_back(line);
    }
    empty_.clear();
  }

  FULGURITE_BULK void name_columns(CsvFile& file, std::vector<std::string_view> const& row) const {
    for (std::size_t i = 0; i != row.size(); ++i) {
      std::string name = options_.header ? std::string(row[i]) : std::to_string(i);
      for (auto const& other : file.columns)
        if (other == name) refuse(began_, "names two columns '" + name + "': rename one");
      file.columns.push_back(std::move(name));
    }
  }

  /// The fields of the next line that is not empty; false at the end. What was in quotes is moved to the front of the
  /// text that was read already, without them.
  FULGURITE_BULK bool next_row(std::string& text, std::vector<std::string_view>& row) {
    for (; at_ < text.size() && (text[at_] == '\n' || text[at_] == '\r'); ++at_)
      if (text[at_] == '\n') empty_.push_back(line_++);
    row.clear();
    if (at_ == text.size()) return false;
    began_ = line_;
    write_ = at_;
    for (bool more = true; more;) {
      std::size_t const from = write_;
      more = next_field(text);
      row.push_back(std::string_view(text).substr(from, write_ - from));
      if (row.size() > options_.most_columns)
        refuse(began_, "has more than " + std::to_string(options_.most_columns) + " fields: raise .most_columns");
    }
    return true;
  }
  /// Whether another field follows in this row.
  FULGURITE_BULK bool next_field(std::string& text) {
    bool const quoted = at_ < text.size() && text[at_] == '"';
    if (quoted) in_quotes(text);
    while (at_ < text.size()) {
      char const c = text[at_++];
      if (c == options_.separator) return true;
      if (c == '\n') return ++line_, false;
      if (c == '\r' && (at_ == text.size() || text[at_] == '\n')) continue;
      if (quoted) refuse(line_, "goes on behind the quote that ends a field: double the quotes inside of fields");
      text[write_++] = c;
    }
    return false;
  }
  FULGURITE_BULK void in_quotes(std::string& text) {
    std::size_t const opened = line_;
    for (++at_; at_ < text.size(); ++at_) {
      if (text[at_] == '"' && (at_ + 1 == text.size() || text[at_ + 1] != '"')) return void(++at_);
      if (text[at_] == '"') ++at_;
      line_ += text[at_] == '\n';
      text[write_++] = text[at_];
    }
    refuse(opened, "opens a quote that does not end");
  }

  [[noreturn]] void refuse(std::size_t line, std::string const& what) const {
    throw Error("fulgurite.data.csv", name_ + ": line " + std::to_string(line) + " " + what);
  }

  std::string name_;
  CsvOptions options_;
  std::size_t at_ = 0, write_ = 0, line_ = 1, began_ = 1;
  std::vector<std::size_t> empty_{};  // lines since the last row
};

/// Reads such a file, plain or compressed by gzip: `read_csv("houses.csv")`. Errors: fulgurite.data.file, .gzip or
/// .csv.
FULGURITE_BULK CsvFile read_csv(std::filesystem::path const& path, CsvOptions options = {}) {
  auto const bytes = read_file(path);
  std::string text;
  auto const take = [&](std::span<std::uint8_t const> part) {
    if (part.size() > options.most_bytes - text.size())
      throw Error("fulgurite.data.csv", path.string() + ": the table has more than " +
                                            std::to_string(options.most_bytes) +
                                            " bytes: raise .most_bytes where the machine has the memory");
    text.append(part.begin(), part.end());
  };
  if (is_gzip(bytes)) {
    Gunzip source{bytes, path.string()};
    std::array<std::uint8_t, 1 << 16> part{};
    while (std::size_t const count = source.read(part)) take(std::span(part).first(count));
  } else {
    take(bytes);
  }
  return CsvReader{path.string(), options}.read(std::move(text));
}

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

  CsvOptions csv() const { return {.separator = separator.empty() ? ',' : separator[0], .header = header}; }
  void state(auto& archive) { archive("missing", missing)("separator", separator)("header", header); }
};
/// The part of these options that such a file needs.
inline TableReading reading_of(TableTypes const& types, CsvOptions const& csv) {
  return {types.missing, std::string(1, csv.separator), csv.header};
}

/// A column: `numbers`, where a missing one is NaN, or else the positions of its values in `labels`, -1 where missing.
struct TableColumn {
  std::string name;
  bool is_number = true;
  std::vector<double> numbers = {};
  std::vector<long> values = {};
  std::vector<std::string> labels = {};  ///< sorted

  bool is_missing(std::size_t row) const { return is_number ? std::isnan(numbers[row]) : values[row] < 0; }
  /// The category of a row; nothing where it is missing.
  std::optional<std::string_view> label(std::size_t row) const {
    if (values[row] < 0) return std::nullopt;
    return labels[static_cast<std::size_t>(values[row])];
  }
};

/// Columns of equally many rows.
struct Table {
  std::string name;  ///< of the file
  std::vector<TableColumn> columns = {};
  std::vector<std::size_t> lines = {};  ///< where each row stands in the file

  std::size_t rows() const { return lines.size(); }
  TableColumn const* find(std::string_view column) const {
    auto const at = std::ranges::find(columns, column, &TableColumn::name);
    return at == columns.end() ? nullptr : &*at;
  }
  /// Error [fulgurite.data.column], with the columns that there are.
  FULGURITE_BULK TableColumn const& column(std::string_view wanted) const {
    if (auto const* found = find(wanted)) return *found;
    std::string all;
    for (auto const& one : columns) (all += all.empty() ? "" : ", ") += one.name;
    throw Error("fulgurite.data.column",
                name + ": there is no column '" + std::string(wanted) + "': it has " + all + "; name one of them");
  }
};

namespace typing {
/// A number for an Error.
FULGURITE_COLD std::string shown(double value) {
  std::array<char, 32> text{};
  auto const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
}  // namespace typing

/// A value as a float. Error [fulgurite.data.too_large], with line and column, where a float cannot hold it.
FULGURITE_BULK float as_float(double value, Table const& table, TableColumn const& column, std::size_t row) {
  auto const narrow = static_cast<float>(value);
  if (std::isfinite(narrow)) return narrow;
  throw Error("fulgurite.data.too_large",
              table.name + ": line " + std::to_string(table.lines[row]) + " has " + typing::shown(column.numbers[row]) +
                  " in the column '" + column.name +
                  "', which as it is given to the model would be beyond the largest float, 3.4e38: mend the value, or "
                  "give the column in another unit");
}

namespace typing {

/// Without the spaces and tabs around it.
FULGURITE_BULK std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  auto const first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

/// The whole of a text as a finite number.
FULGURITE_BULK std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

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

FULGURITE_BULK TableColumn column_of(CsvFile const& file, std::size_t at, TableTypes const& types) {
  auto const field_of = [&](std::size_t row) { return trimmed(file.field(row, at)); };
  auto const is_missing = [&](std::string_view field) {
    return std::ranges::any_of(types.missing, [&](auto const& missing) { return trimmed(missing) == field; });
  };
  TableColumn column{.name = file.columns[at]};
  column.is_number = std::ranges::find(types.categories, column.name) == types.categories.end();
  for (std::size_t row = 0; row != file.rows() && column.is_number; ++row) {
    auto const field = field_of(row);
    auto const number = is_missing(field) ? std::numeric_limits<double>::quiet_NaN() : number_of(field);
    if (!number) refuse_odd_cell(file, at, row, is_missing);
    column.is_number = number.has_value();
    column.numbers.push_back(number.value_or(0));
  }
  if (column.is_number) return column;
  column.numbers = {};
  std::map<std::string_view, long> found;
  for (std::size_t row = 0; row != file.rows(); ++row)
    if (!is_missing(field_of(row))) found.emplace(field_of(row), 0);
  for (auto& [label, position] : found) {
    position = static_cast<long>(column.labels.size());
    column.labels.emplace_back(label);
  }
  for (std::size_t row = 0; row != file.rows(); ++row) {
    auto const at_label = found.find(field_of(row));
    column.values.push_back(at_label == found.end() ? -1 : at_label->second);
  }
  return column;
}

}  // namespace typing

/// Gives the columns of a file their types: numbers where all values that are there are numbers, categories where less
/// than half are. Errors: [fulgurite.data.column] where the types name a column that is not there, and
/// [fulgurite.data.column_type], with line and value, where a column has numbers for the most part.
FULGURITE_BULK Table typed(CsvFile const& file, TableTypes const& types = {}) {
  Table made{.name = file.name, .lines = file.lines};
  for (auto const& names : {types.categories, types.leave_out})
    for (auto const& name : names)
      if (std::ranges::find(file.columns, name) == file.columns.end()) {
        for (auto const& column : file.columns) made.columns.push_back({.name = column});
        static_cast<void>(made.column(name));
      }
  for (std::size_t at = 0; at != file.columns.size(); ++at)
    if (std::ranges::find(types.leave_out, file.columns[at]) == types.leave_out.end())
      made.columns.push_back(typing::column_of(file, at, types));
  return made;
}

/// `read_table("houses.csv", {.categories = {"zip"}})`. Errors: those of read_csv and typed.
inline Table read_table(std::filesystem::path const& path, TableTypes const& types = {}, CsvOptions options = {}) {
  return typed(read_csv(path, options), types);
}

// Mean and spread of columns of numbers, learned from some of their rows.

/// What takes a column of numbers to mean 0 and standard deviation 1, as it was on the rows that it was learned from. A
/// column that is the same everywhere, but for the rounding of its numbers, has deviation 1.
struct Standardization {
  double mean = 0, deviation = 1;

  double operator()(double value) const {
    double const apart = value - mean;
    return std::isinf(apart) ? value / deviation - mean / deviation : apart / deviation;
  }
  double back(double standardized) const { return standardized * deviation + mean; }

  bool operator==(Standardization const&) const = default;
  void state(auto& archive) { archive("mean", mean)("deviation", deviation); }
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

  std::size_t width() const { return is_number ? 1 + std::size_t{tells_missing} : labels.size(); }
  void state(auto& archive) {
    archive("name", name)("is_number", is_number)("tells_missing", tells_missing)("labels", labels);
    archive.child("standard", standard);
  }
};

/// The encoding of a table's columns, which a checkpoint keeps.
class TableEncoding {
 public:
  TableEncoding() = default;
  /// Learned from these rows of all columns but `target`.
  TableEncoding(Table const& table, std::span<std::size_t const> rows, std::string_view target) {
    for (auto const& column : table.columns)
      if (column.name != target) columns_.push_back(learned(column, rows));
  }

  /// Features of a row.
  std::size_t width() const {
    std::size_t all = 0;
    for (auto const& column : columns_) all += column.width();
    return all;
  }
  /// What they are called: `area`, `area is missing`, `zip = 8001`.
  FULGURITE_BULK std::vector<std::string> features() const {
    std::vector<std::string> names;
    for (auto const& column : columns_) {
      if (column.is_number) names.push_back(column.name);
      if (column.tells_missing) names.push_back(column.name + " is missing");
      for (auto const& label : column.labels) names.push_back(column.name + " = " + label);
    }
    return names;
  }
  std::vector<ColumnEncoding> const& columns() const { return columns_; }

  /// How the columns of another file have to be read; those that are not encoded are left out.
  FULGURITE_BULK TableTypes types_of(CsvFile const& file, std::vector<std::string> missing) const {
    TableTypes types{.missing = std::move(missing)};
    for (auto const& name : file.columns) {
      auto const at = std::ranges::find(columns_, name, &ColumnEncoding::name);
      if (at == columns_.end()) types.leave_out.push_back(name);
      else if (!at->is_number) types.categories.push_back(name);
    }
    return types;
  }

  /// Writes rows() x width() numbers, row by row. Errors: [fulgurite.data.column] where the table lacks a column,
  /// [fulgurite.data.column_type], with the line, where it has text in place of numbers, and [fulgurite.data.too_large]
  /// for a number that a float cannot hold, standardised.
  FULGURITE_BULK void encode(Table const& table, float* into) const {
    std::size_t const all = width();
    std::size_t first = 0;
    for (auto const& encoding : columns_) {
      auto const& column = table.column(encoding.name);
      if (encoding.is_number && !column.is_number) refuse_text(table, column);
      bool const category_as_number = !encoding.is_number && column.is_number;
      if (category_as_number && !std::ranges::all_of(column.numbers, [](double v) { return std::isnan(v); }))
        throw Error("fulgurite.data.column_type", table.name + ": the column '" + column.name +
                                                      "' held categories in training, and was read as numbers: name "
                                                      "it in .categories");
      for (std::size_t row = 0; row != table.rows(); ++row) one(encoding, table, column, row, into + row * all + first);
      first += encoding.width();
    }
  }

  /// Loading, the columns have to be those of before, with as many features, where there are any. Error
  /// [fulgurite.data.table_changed].
  void state(auto& archive) {
    auto saved = columns_;
    archive("columns", saved);
    if (!saved.empty() && !columns_.empty() && !std::ranges::equal(saved, columns_, [](auto const& a, auto const& b) {
          return a.name == b.name && a.is_number == b.is_number && a.width() == b.width();
        }))
      throw Error("fulgurite.data.table_changed",
                  "the table has other columns, types or categories than the one that the checkpoint was trained on: "
                  "give the same file, seed and share of validation, or restore what was learned from it by "
                  "data_state<data::TableInputs>(checkpoint), and encode rows by its inputs(file)");
    columns_ = std::move(saved);
  }

 private:
  FULGURITE_BULK static ColumnEncoding learned(TableColumn const& column, std::span<std::size_t const> rows) {
    ColumnEncoding made{.name = column.name, .is_number = column.is_number};
    if (column.is_number) {
      made.standard = standardization_of(rows.size(), [&](std::size_t i) { return column.numbers[rows[i]]; });
      made.tells_missing = std::ranges::any_of(rows, [&](std::size_t row) { return column.is_missing(row); });
      return made;
    }
    std::vector<bool> seen(column.labels.size());
    for (std::size_t const row : rows)
      if (!column.is_missing(row)) seen[static_cast<std::size_t>(column.values[row])] = true;
    for (std::size_t i = 0; i != seen.size(); ++i)
      if (seen[i]) made.labels.push_back(column.labels[i]);
    return made;
  }

  static void one(ColumnEncoding const& encoding, Table const& table, TableColumn const& column, std::size_t row,
                  float* into) {
    std::fill_n(into, encoding.width(), 0.0F);
    bool const missing = column.is_missing(row);
    if (encoding.is_number) {
      if (!missing) into[0] = as_float(encoding.standard(column.numbers[row]), table, column, row);
      else if (encoding.tells_missing) into[1] = 1;
    } else if (!missing) {
      auto const value = *column.label(row);
      auto const at = std::ranges::lower_bound(encoding.labels, value, {},
                                               [](std::string const& label) { return std::string_view(label); });
      if (at != encoding.labels.end() && *at == value) into[at - encoding.labels.begin()] = 1;
    }
  }

  [[noreturn]] FULGURITE_COLD static void refuse_text(Table const& table, TableColumn const& column) {
    std::size_t row = 0;
    while (row + 1 < table.rows() && (column.is_missing(row) || typing::number_of(*column.label(row)).has_value()))
      ++row;
    throw Error("fulgurite.data.column_type", table.name + ": line " + std::to_string(table.lines[row]) + " has '" +
                                                  std::string(column.label(row).value_or("")) + "' in the column '" +
                                                  column.name + "', which held numbers in training: mend the line");
  }

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
FULGURITE_BULK Split split_windows(std::size_t steps, WindowShape const& shape, Share validation) {
  at_least(1, "fulgurite.data.windows", ".length", shape.length);
  at_least(1, "fulgurite.data.windows", ".horizon", shape.horizon);
  at_least(1, "fulgurite.data.windows", ".stride", shape.stride);
  long const all = static_cast<long>(steps), border = all - static_cast<long>(validation.of(steps));
  Split parts;
  for (long start = 0, i = 0; start <= all - shape.span(); start += shape.stride, ++i) {
    if (start + shape.span() <= border) parts.train.push_back(static_cast<std::size_t>(i));
    else if (start >= border) parts.validation.push_back(static_cast<std::size_t>(i));
  }
  if (parts.train.empty() || (parts.validation.empty() && border < all)) {
    std::string const parted = std::to_string(border) + " are to train on and " + std::to_string(all - border);
    throw Error("fulgurite.data.windows",
                "of " + std::to_string(steps) + " time steps " + parted + " to validate on, and a window needs " +
                    std::to_string(shape.span()) +
                    " (.length + .horizon): shorten it, or give another share to .validation");
  }
  return parts;
}

}  // namespace fulgurite::data
