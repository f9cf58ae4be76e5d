#pragma once
// Rows of a CSV file as text, and back: a cell may hold commas, quotes and line breaks.

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::logger {

/// One row as text, which a CsvReader reads back as these cells.
FULGURITE_BULK std::string csv_row(std::vector<std::string> const& cells) {
  std::string line;
  for (auto const& cell : cells) {
    if (&cell != cells.data()) line += ',';
    if (cell.find_first_of(",\"\n\r") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (char const c : cell) (line += c) += c == '"' ? "\"" : "";
    line += '"';
  }
  return line + '\n';
}

/// Reads the rows of an open file one by one, so that a long table need not fit into memory. A row ends at a line break
/// outside of quotes.
class CsvReader {
 public:
  CsvReader(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}

  /// Reads the next row's cells; false at the end.
  FULGURITE_BULK bool next(std::vector<std::string>& cells) {
    cells.assign(1, "");
    int c = take();
    if (c < 0) return false;
    bool inside = false;
    for (; c >= 0; c = take()) {
      if (inside && c == '"' && peek() == '"') cells.back() += static_cast<char>(take());
      else if (c == '"') inside = !inside;
      else if (inside) cells.back() += static_cast<char>(c);
      else if (c == ',') cells.emplace_back();
      else if (c == '\r' && peek() == '\n') continue;
      else if (c == '\n') return true;
      else cells.back() += static_cast<char>(c);
    }
    if (inside)
      throw Error("fulgurite.file.read",
                  "cannot read " + path_.string() + ", to which rows are to be added: it ends inside a quoted cell");
    return true;
  }

 private:
  FULGURITE_BULK int peek() {
    if (at_ == filled_) {
      auto const count = file::read_at(descriptor_, std::as_writable_bytes(std::span(buffer_)), offset_);
      if (count < 0) file::fail("fulgurite.file.read", "read", path_, errno);
      offset_ += static_cast<std::uint64_t>(count);
      at_ = 0;
      filled_ = static_cast<std::size_t>(count);
    }
    return at_ == filled_ ? -1 : static_cast<unsigned char>(buffer_[at_]);
  }
  int take() {
    int const c = peek();
    if (c >= 0) ++at_;
    return c;
  }

  int descriptor_;
  std::filesystem::path path_;
  std::array<char, 65536> buffer_{};
  std::size_t at_ = 0, filled_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace fulgurite::logger
