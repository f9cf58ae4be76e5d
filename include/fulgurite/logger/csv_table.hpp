#pragma once
// A CSV file of numbers that grows by rows and by columns and loses neither.

#include <sys/stat.h>

#include <algorithm>
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

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/file_lock.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/logger/csv_text.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger {

/// A cell of a row, by the name of its column.
struct Cell {
  std::string_view column;
  double value;
  bool whole = false;  ///< written as an integer
};

/// A table that grows by rows and by columns, which are sorted. Each row is handed to the kernel by one write(2) before
/// `add` returns: a process that is killed loses none, a power cut may lose those that are not on the disk yet. A new
/// column rewrites the file, durably: the old one or the new one is there, never half of one. A file that was deleted
/// or moved away meanwhile is written anew with all rows. One that somebody else has written to or replaced is left
/// alone, and `add` throws [fulgurite.logger.table_changed].
class CsvTable {
 public:
  /// Opens a table. One that exists is continued.
  explicit CsvTable(std::filesystem::path path) : path_(std::move(path)) {
    if (!open()) return;
    CsvReader in(descriptor_.number(), path_);
    std::vector<std::string> row;
    if (in.next(row) && (row.size() > 1 || !row.front().empty())) columns_ = row;
    while (in.next(row)) ++rows_;
    // A row that a power cut left unfinished is ended, so that the next one stands for itself.
    char last = '\n';
    if (size_ > 0) file::read_at(descriptor_.number(), std::as_writable_bytes(std::span(&last, 1)), size_ - 1);
    if (last != '\n') append("\n");
  }

  FULGURITE_COLD void add(std::vector<Cell> const& cells) {
    require_ours();
    std::vector<std::string> columns = columns_;
    for (auto const& cell : cells)
      if (std::find(columns.begin(), columns.end(), cell.column) == columns.end()) columns.emplace_back(cell.column);
    if (columns.size() != columns_.size()) {
      std::sort(columns.begin(), columns.end());
      rewrite(std::move(columns), cells);
    } else {
      append(row(columns_, cells));
    }
    ++rows_;
  }

  /// Drops all rows after the first `rows`, and the columns that only those had: the table is as it was when it had
  /// that many. Durably, as a new column is made.
  FULGURITE_COLD void keep(long rows) {
    require_ours();
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
    DurableFile out(path_);
    std::string block = columns_.empty() ? std::string() : csv_row(columns_);
    each_row(rows, [&](auto const& cells) {
      block += csv_row(of_used(cells));
      if (block.size() > 65536) out.write(std::exchange(block, {}));
    });
    out.write(block);
    out.commit();
    rows_ = rows;
    open();
  }

  /// Waits until all rows are on the disk: a file that tells of them may be written then.
  void sync() {
    if (descriptor_ && ::fdatasync(descriptor_.number()) != 0)
      file::fail("fulgurite.file.write", "make durable the rows of", path_, errno);
  }

  long rows() const { return rows_; }

  std::filesystem::path const& path() const { return path_; }
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

  /// Opens the file; false where there is none. A file that exists and cannot be read must not be mistaken for a new
  /// one.
  FULGURITE_COLD bool open() {
    FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC));
    if (!opened && errno == ENOENT) return false;
    constexpr std::string_view cure = "; rows are to be added to it: move it away, or log into another folder";
    struct stat status{};
    if (!opened || ::fstat(opened.number(), &status) != 0)
      file::fail("fulgurite.file.read", "read", path_, errno, cure);
    if (!S_ISREG(status.st_mode))
      throw Error("fulgurite.file.read",
                  "cannot read " + path_.string() + ": this is not a regular file" + std::string(cure));
    descriptor_ = std::move(opened);
    size_ = static_cast<std::uint64_t>(status.st_size);
    return true;
  }

  /// Makes sure that the file at `path` is the one with the rows so far, and that nobody else has written to it. Where
  /// it is gone, it is made again.
  FULGURITE_COLD void require_ours() {
    struct stat here{};
    struct stat there{};
    bool const is_there = ::stat(path_.c_str(), &there) == 0;
    if (!is_there && errno != ENOENT && errno != ENOTDIR)
      file::fail("fulgurite.file.write", "append a row to", path_, errno);
    if (!descriptor_ && !is_there) return;
    bool const ours = descriptor_ && ::fstat(descriptor_.number(), &here) == 0 &&
                      static_cast<std::uint64_t>(here.st_size) == size_ &&
                      (!is_there || (here.st_dev == there.st_dev && here.st_ino == there.st_ino));
    if (!ours)
      throw Error(
          "fulgurite.logger.table_changed",
          path_.string() +
              " was written to or replaced by somebody else while rows were added to it, and is left alone: give "
              "each run a version of its own, and edit copies");
    if (is_there) return;
    DurableFile out(path_);
    std::array<std::byte, 65536> block;
    for (std::uint64_t at = 0; at < size_; at += block.size()) {
      auto const part =
          std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size_ - at)));
      if (file::read_at(descriptor_.number(), part, at) != static_cast<ssize_t>(part.size()))
        file::fail("fulgurite.file.read", "read the rows of", path_, errno);
      out.write(part);
    }
    out.commit();
    open();
  }

  FULGURITE_COLD void append(std::string const& line) {
    int const error = file::write_all(descriptor_.number(), line);
    if (error == 0) {
      size_ += line.size();
      return;
    }
    // Half a row would be glued to the next one; if even this fails there is nothing left to do.
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(size_)) != 0) errno = 0;
    file::fail("fulgurite.file.write", "append a row to", path_, error);
  }

  /// f(cells) for the first rows of the file.
  template <class F>
  void each_row(long rows, F&& f) const {
    CsvReader in(descriptor_.number(), path_);
    std::vector<std::string> cells;
    in.next(cells);
    for (long i = 0; i < rows && in.next(cells); ++i) f(cells);
  }

  // The table is copied row by row, so that a long one need not fit into memory.
  FULGURITE_COLD void rewrite(std::vector<std::string> columns, std::vector<Cell> const& cells) {
    DurableFile out(path_);
    std::string block = csv_row(columns);
    std::vector<std::size_t> place;
    place.reserve(columns_.size());
    for (auto const& name : columns_)
      place.push_back(static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin()));
    if (!columns_.empty()) {
      CsvReader in(descriptor_.number(), path_);
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
    open();
  }

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  FileDescriptor descriptor_;
  long rows_ = 0;           ///< without the names of the columns
  std::uint64_t size_ = 0;  ///< of the file, when this table last wrote to it
};

}  // namespace fulgurite::logger
