#pragma once
// A table with types: columns of numbers, and columns of categories; either may lack values.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/csv.hpp>

namespace fulgurite::data {

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

}  // namespace fulgurite::data
