#pragma once
// The bodies of data/table.hpp.

#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <system_error>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/table.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY std::string_view CsvFile::field(std::size_t row, std::size_t column) const {
  return fields[row * columns.size() + column];
}

FULGURITE_BULK_BODY CsvReader::CsvReader(std::string name, CsvOptions options)
    : name_(std::move(name)), options_(options) {}

FULGURITE_BULK_BODY CsvFile CsvReader::read(std::string text) {
  auto const kept = std::make_shared<std::string>(std::move(text));
  if (kept->starts_with("\xEF\xBB\xBF")) at_ = write_ = 3;  // the byte order mark with which Windows begins UTF-8 files
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

FULGURITE_BULK_BODY void CsvReader::add_empty(CsvFile& file, std::size_t bytes) {
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

FULGURITE_BULK_BODY void CsvReader::name_columns(CsvFile& file, std::vector<std::string_view> const& row) const {
  for (std::size_t i = 0; i != row.size(); ++i) {
    std::string name = options_.header ? std::string(row[i]) : std::to_string(i);
    for (auto const& other : file.columns)
      if (other == name) refuse(began_, "names two columns '" + name + "': rename one");
    file.columns.push_back(std::move(name));
  }
}

FULGURITE_BULK_BODY bool CsvReader::next_row(std::string& text, std::vector<std::string_view>& row) {
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

FULGURITE_BULK_BODY bool CsvReader::next_field(std::string& text) {
  bool const quoted = at_ < text.size() && text[at_] == '"';
  if (quoted) in_quotes(text);
  while (at_ < text.size()) {
    char const c = text[at_++];
    if (c == options_.separator) return true;
    if (c == '\n') return ++line_, false;
    if (c == '\r' && (at_ == text.size() || text[at_] == '\n')) continue;
    if (quoted) refuse(line_, "has text behind the quote that ends a field: double the quotes inside fields");
    text[write_++] = c;
  }
  return false;
}

FULGURITE_BULK_BODY void CsvReader::in_quotes(std::string& text) {
  std::size_t const opened = line_;
  for (++at_; at_ < text.size(); ++at_) {
    if (text[at_] == '"' && (at_ + 1 == text.size() || text[at_ + 1] != '"')) return void(++at_);
    if (text[at_] == '"') ++at_;
    line_ += text[at_] == '\n';
    text[write_++] = text[at_];
  }
  refuse(opened, "opens a quote that does not end");
}

FULGURITE_BULK_BODY void CsvReader::refuse(std::size_t line, std::string const& what) const {
  throw Error("fulgurite.data.csv", name_ + ": line " + std::to_string(line) + " " + what);
}

FULGURITE_BULK_BODY CsvFile read_csv(std::filesystem::path const& path, CsvOptions options) {
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

FULGURITE_BULK_BODY CsvOptions TableReading::csv() const {
  return {separator.empty() ? ',' : separator[0], header, most_bytes, most_columns};
}

FULGURITE_BULK_BODY TableReading reading_of(TableTypes const& types, CsvOptions const& csv) {
  return {types.missing, std::string(1, csv.separator), csv.header, csv.most_bytes, csv.most_columns};
}

FULGURITE_BULK_BODY bool TableColumn::is_missing(std::size_t row) const {
  return is_number ? std::isnan(numbers[row]) : values[row] < 0;
}

FULGURITE_BULK_BODY std::optional<std::string_view> TableColumn::label(std::size_t row) const {
  if (values[row] < 0) return std::nullopt;
  return labels[static_cast<std::size_t>(values[row])];
}

FULGURITE_BULK_BODY TableColumn const* Table::find(std::string_view column) const {
  auto const at = std::ranges::find(columns, column, &TableColumn::name);
  return at == columns.end() ? nullptr : &*at;
}

FULGURITE_BULK_BODY TableColumn const& Table::column(std::string_view wanted) const {
  if (auto const* found = find(wanted)) return *found;
  auto const all = listed(columns, [](TableColumn const& one) { return std::string_view(one.name); });
  throw Error("fulgurite.data.column",
              name + ": there is no column '" + std::string(wanted) + "': it has " + all + "; name one of them");
}

FULGURITE_BULK_BODY float as_float(double value, Table const& table, TableColumn const& column, std::size_t row) {
  auto const narrow = static_cast<float>(value);
  if (std::isfinite(narrow)) return narrow;
  throw Error("fulgurite.data.too_large",
              table.name + ": line " + std::to_string(table.lines[row]) + " has " + exact_number(column.numbers[row]) +
                  " in the column '" + column.name +
                  "', which as it is given to the model would be beyond the largest float, 3.4e38: mend the value, or "
                  "give the column in another unit");
}

}  // namespace fulgurite::data

namespace fulgurite::data::typing {

FULGURITE_BULK_BODY std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  auto const first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

FULGURITE_BULK_BODY std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

FULGURITE_BULK_BODY TableColumn column_of(CsvFile const& file, std::size_t at, TableTypes const& types) {
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

}  // namespace fulgurite::data::typing

namespace fulgurite::data {

FULGURITE_BULK_BODY Table typed(CsvFile const& file, TableTypes const& types) {
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

FULGURITE_BULK_BODY Table read_table(std::filesystem::path const& path, TableTypes const& types, CsvOptions options) {
  return typed(read_csv(path, options), types);
}

FULGURITE_BULK_BODY double Standardization::operator()(double value) const {
  double const apart = value - mean;
  return std::isinf(apart) ? value / deviation - mean / deviation : apart / deviation;
}

FULGURITE_BULK_BODY std::size_t ColumnEncoding::width() const {
  return is_number ? 1 + std::size_t{flags_missing} : labels.size();
}

FULGURITE_BULK_BODY TableEncoding::TableEncoding(Table const& table, std::span<std::size_t const> rows,
                                                 std::string_view target) {
  for (auto const& column : table.columns)
    if (column.name != target) columns_.push_back(learned(column, rows));
}

FULGURITE_BULK_BODY std::size_t TableEncoding::width() const {
  std::size_t all = 0;
  for (auto const& column : columns_) all += column.width();
  return all;
}

FULGURITE_BULK_BODY std::vector<std::string> TableEncoding::features() const {
  std::vector<std::string> names;
  for (auto const& column : columns_) {
    if (column.is_number) names.push_back(column.name);
    if (column.flags_missing) names.push_back(column.name + " is missing");
    for (auto const& label : column.labels) names.push_back(column.name + " = " + label);
  }
  return names;
}

FULGURITE_BULK_BODY TableTypes TableEncoding::types_of(CsvFile const& file, std::vector<std::string> missing) const {
  TableTypes types{.missing = std::move(missing)};
  for (auto const& column : columns_)
    if (std::ranges::find(file.columns, column.name) == file.columns.end())
      throw Error("fulgurite.data.column", file.name + ": there is no column '" + column.name +
                                               "', which the table had in training: it has " + listed(file.columns) +
                                               "; add the column");
  for (auto const& name : file.columns) {
    auto const at = std::ranges::find(columns_, name, &ColumnEncoding::name);
    if (at == columns_.end()) types.leave_out.push_back(name);
    else if (!at->is_number) types.categories.push_back(name);
  }
  return types;
}

FULGURITE_BULK_BODY void TableEncoding::encode(Table const& table, float* into) const {
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

FULGURITE_BULK_BODY ColumnEncoding TableEncoding::learned(TableColumn const& column,
                                                          std::span<std::size_t const> rows) {
  ColumnEncoding made{.name = column.name, .is_number = column.is_number};
  if (column.is_number) {
    made.standard = standardization_of(rows.size(), [&](std::size_t i) { return column.numbers[rows[i]]; });
    made.flags_missing = std::ranges::any_of(rows, [&](std::size_t row) { return column.is_missing(row); });
    return made;
  }
  std::vector<bool> seen(column.labels.size());
  for (std::size_t const row : rows)
    if (!column.is_missing(row)) seen[static_cast<std::size_t>(column.values[row])] = true;
  for (std::size_t i = 0; i != seen.size(); ++i)
    if (seen[i]) made.labels.push_back(column.labels[i]);
  return made;
}

FULGURITE_BULK_BODY void TableEncoding::one(ColumnEncoding const& encoding, Table const& table,
                                            TableColumn const& column, std::size_t row, float* into) {
  std::fill_n(into, encoding.width(), 0.0F);
  bool const missing = column.is_missing(row);
  if (encoding.is_number) {
    if (!missing) into[0] = as_float(encoding.standard(column.numbers[row]), table, column, row);
    else if (encoding.flags_missing) into[1] = 1;
  } else if (!missing) {
    auto const value = *column.label(row);
    auto const at = std::ranges::lower_bound(encoding.labels, value, {},
                                             [](std::string const& label) { return std::string_view(label); });
    if (at != encoding.labels.end() && *at == value) into[at - encoding.labels.begin()] = 1;
  }
}

FULGURITE_BODY void TableEncoding::refuse_text(Table const& table, TableColumn const& column) {
  std::size_t row = 0;
  while (row + 1 < table.rows() && (column.is_missing(row) || typing::number_of(*column.label(row)).has_value())) ++row;
  throw Error("fulgurite.data.column_type", table.name + ": line " + std::to_string(table.lines[row]) + " has '" +
                                                std::string(column.label(row).value_or("")) + "' in the column '" +
                                                column.name + "', which held numbers in training: mend the line");
}

FULGURITE_BULK_BODY Split split_windows(std::size_t steps, WindowShape const& shape, Share validation) {
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

void TableReading::state(auto& archive) { archive("missing", missing)("separator", separator)("header", header); }
FULGURITE_STATE(TableReading)

void Standardization::state(auto& archive) { archive("mean", mean)("deviation", deviation); }
FULGURITE_STATE(Standardization)

void ColumnEncoding::state(auto& archive) {
  archive("name", name)("is_number", is_number)("tells_missing", flags_missing)("labels", labels);
  archive.child("standard", standard);
}
FULGURITE_STATE(ColumnEncoding)

void TableEncoding::state(auto& archive) {
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
FULGURITE_STATE(TableEncoding)

}  // namespace fulgurite::data
