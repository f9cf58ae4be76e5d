#pragma once
// Reads tables of text: one row a line, fields between separators, in quotes where they hold one (RFC 4180).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/gzip.hpp>

namespace fulgurite::data {

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

}  // namespace fulgurite::data
