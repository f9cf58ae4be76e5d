#pragma once
// From the rows of a table to rows of numbers, by what was learned from the training rows alone.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/standardization.hpp>
#include <fulgurite/data/table.hpp>

namespace fulgurite::data {

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

}  // namespace fulgurite::data
