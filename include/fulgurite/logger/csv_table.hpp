#pragma once
// A CSV file of numbers that grows by rows and by columns and loses neither.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger {

/// A cell of a row, by the name of its column.
struct Cell {
  std::string_view column;
  double value;
  bool whole = false;  ///< written as an integer
};

/// Each row is handed to the kernel by one write(2) before `add` returns: a killed process loses none; a power cut may lose those
/// the kernel has not put on the disk yet. A new column rewrites the file (durably: old or new, never half). Columns are sorted.
class CsvTable {
 public:
  /// Goes on with a table that is there.
  explicit CsvTable(std::filesystem::path path) : path_(std::move(path)) {
    std::ifstream in(path_);
    check_readable(in);
    if (std::string header; in && std::getline(in, header)) columns_ = split(header);
    if (columns_.empty()) return;
    open();
    // A row that a power cut left unfinished is ended, so that the next one stands for itself.
    char last = '\n';
    in.clear();
    in.seekg(-1, std::ios::end).get(last);
    if (last != '\n') append("\n");
  }

  void add(std::vector<Cell> const& cells) {
    std::vector<std::string> columns = columns_;
    for (auto const& cell : cells)
      if (std::find(columns.begin(), columns.end(), cell.column) == columns.end()) columns.emplace_back(cell.column);
    if (columns.size() != columns_.size()) {
      std::sort(columns.begin(), columns.end());
      rewrite(std::move(columns), cells);
    } else {
      append(row(columns_, cells));
    }
  }

  std::filesystem::path const& path() const { return path_; }
  std::vector<std::string> const& columns() const { return columns_; }

 private:
  /// A table that is there and cannot be read must not be taken for a new one.
  void check_readable(std::ifstream const& in) const {
    if (std::filesystem::exists(path_) && (!in || !std::filesystem::is_regular_file(path_)))
      throw Error("fulgurite.file.read", "cannot read " + path_.string() + ", to which rows are to be added: move it away, or log into another folder");
  }

  static std::string quoted(std::string const& text) {
    if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
    std::string out = "\"";
    for (char c : text) (out += c) += c == '"' ? "\"" : "";
    return out + '"';
  }
  static std::vector<std::string> split(std::string_view line) {
    std::vector<std::string> cells(1);
    bool inside = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      char const c = line[i];
      if (c == '"' && inside && i + 1 < line.size() && line[i + 1] == '"') cells.back() += line[i++];
      else if (c == '"') inside = !inside;
      else if (c == ',' && !inside) cells.emplace_back();
      else if (c != '\r') cells.back() += c;
    }
    return cells;
  }
  static std::string joined(std::vector<std::string> const& cells) {
    std::string line;
    for (std::size_t i = 0; i != cells.size(); ++i) (line += i == 0 ? "" : ",") += quoted(cells[i]);
    return line + '\n';
  }
  static std::string row(std::vector<std::string> const& columns, std::vector<Cell> const& cells) {
    std::vector<std::string> texts(columns.size());
    for (auto const& cell : cells) {
      auto const at = static_cast<std::size_t>(std::find(columns.begin(), columns.end(), cell.column) - columns.begin());
      texts[at] = cell.whole ? std::to_string(static_cast<long long>(cell.value)) : report::exact(cell.value);
    }
    return joined(texts);
  }

  void open() {
    descriptor_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!descriptor_) file::fail("fulgurite.file.write", "open", path_, errno);
  }

  void append(std::string const& line) {
    struct stat before {};
    ::fstat(descriptor_.number(), &before);
    int const error = file::write_all(descriptor_.number(), line);
    if (error == 0) return;
    // Half a row would be glued to the next one; if even this fails there is nothing left to do.
    if (::ftruncate(descriptor_.number(), before.st_size) != 0) errno = 0;
    file::fail("fulgurite.file.write", "append a row to", path_, error);
  }

  // Line by line, so that a long table need not fit in memory.
  void rewrite(std::vector<std::string> columns, std::vector<Cell> const& cells) {
    DurableFile out(path_);
    std::string block = joined(columns);
    std::vector<std::size_t> place;
    for (auto const& name : columns_)
      place.push_back(static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin()));
    std::ifstream in(path_);
    check_readable(in);
    std::string line;
    if (!columns_.empty()) std::getline(in, line);
    while (!columns_.empty() && std::getline(in, line)) {
      auto const old = split(line);
      std::vector<std::string> texts(columns.size());
      for (std::size_t i = 0; i < old.size() && i < place.size(); ++i) texts[place[i]] = old[i];
      block += joined(texts);
      if (block.size() > 65536) out.write(std::exchange(block, {}));
    }
    out.write(block + row(columns, cells));
    out.commit();
    columns_ = std::move(columns);
    open();
  }

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  FileDescriptor descriptor_;
};

}  // namespace fulgurite::logger
