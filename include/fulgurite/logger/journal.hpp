#pragma once
// A file of entries that only grows at its end, and can be cut back to its first so many.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::logger {

// One value of a row, as loggers write it.

/// A cell of a row, by the name of its column.
struct Cell {
  std::string_view column;
  double value;
  bool whole = false;  ///< written as an integer
};

// Names and texts as formats want them that know nothing but UTF-8.

/// The text, with the sign for an unknown character, U+FFFD, in the place of each byte that is no UTF-8: a reader would
/// refuse the whole row for one of them.
std::string utf8_text(std::string_view text);

// Rows of a CSV file as text, and back: a cell may hold commas, quotes and line breaks.

/// One row as text, which a CsvReader reads back as these cells.
std::string csv_row(std::vector<std::string> const& cells);

/// Reads the rows of an open file one by one, so that a long table need not fit into memory. A row ends at a line break
/// outside of quotes.
class CsvReader {
 public:
  CsvReader(int descriptor, std::filesystem::path path);

  /// Reads the next row's cells; false at the end.
  bool next(std::vector<std::string>& cells);

 private:
  int peek();
  int take();

  int descriptor_;
  std::filesystem::path path_;
  std::array<char, 65536> buffer_{};
  std::size_t at_ = 0, filled_ = 0;
  std::uint64_t offset_ = 0;
};

// Looks into an open file piece by piece, from its beginning to its end, without holding all of it.

/// The bytes of a file from an offset on: `window.at(offset, 12)`.
class FileWindow {
 public:
  FileWindow(int descriptor, std::filesystem::path path);

  /// So many bytes from `offset` on, fewer where the file ends before; valid until the next call.
  std::string_view at(std::uint64_t offset, std::size_t count);

  /// What is at hand from `offset` on, at least one byte where the file has any there.
  std::string_view from(std::uint64_t offset);

 private:
  int descriptor_;
  std::filesystem::path path_;  ///< for errors
  std::vector<char> bytes_{};
  std::uint64_t begin_ = 0;  ///< of the bytes, in the file
  std::size_t filled_ = 0;
};

// A file that grows at its end, of which its writer knows at each time what it holds.

/// Each piece is handed to the kernel by one write(2) before `append` returns: a process that is killed loses none, a
/// power cut may lose those that are not on the disk yet. A file that was deleted or moved away meanwhile is written
/// anew with all that it had. One that somebody else has written to or replaced is left alone, and `require_ours`
/// throws [fulgurite.logger.table_changed].
class GrowingFile {
 public:
  /// Opens the file, where there is one.
  explicit GrowingFile(std::filesystem::path path);

  bool is_there() const { return static_cast<bool>(descriptor_); }
  int number() const { return descriptor_.number(); }
  std::uint64_t size() const { return size_; }
  std::filesystem::path const& path() const { return path_; }

  /// Opens what is at the path now; false where there is nothing. A file that exists and cannot be read must not be
  /// mistaken for a new one.
  bool open();

  /// Makes sure that the file at the path is the one with what was written so far, and that nobody else has written to
  /// it. Where it is gone, it is made again.
  void require_ours();

  /// Adds a piece at the end. The first one makes the file, durably.
  void append(std::string_view piece);

  /// Cuts off what follows the first `size` bytes. A reader that has the file open sees it shrink.
  void cut(std::uint64_t size);

  /// Waits until all of it is on the disk: a file that tells of it may be written then.
  void sync() const;

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;  ///< when it was last written to by this object
};

/// Where an entry ends, and whether it is a row of metrics.
struct JournalEntry {
  std::uint64_t end = 0;
  bool is_row = false;
};

/// Entries one after the other. `Format::next(window, at, size)` is the entry that begins there, in a file of so many
/// bytes; nothing where it is not whole. An unfinished entry at the end, which a power cut has left, is cut off when
/// the file is opened, since the next one could not be found behind it; where more follows it, the file is not a
/// journal of ours, or damaged, and opening it is the Error [fulgurite.logger.damaged].
template <class Format>
class Journal {
 public:
  /// Opens a journal. One that exists is continued.
  explicit Journal(std::filesystem::path path) : file_(std::move(path)) {
    if (!file_.is_there()) return;
    std::uint64_t const end = each([&](JournalEntry const&) { return ++entries_, true; });
    if (end == file_.size()) return;
    FileWindow rest(file_.number(), file_.path());
    if (!Format::is_torn(rest, end, file_.size()))
      throw Error("fulgurite.logger.damaged",
                  file_.path().string() + ", byte " + std::to_string(end) +
                      ": what stands here was not written by this logger, and more follows: move the file away, or log "
                      "into another folder");
    file_.cut(end);
  }

  /// Adds entries, so many, in one piece.
  void append(std::string_view bytes, long count = 1) {
    file_.require_ours();
    file_.append(bytes);
    entries_ += count;
  }

  /// Drops all entries after the first so many.
  void keep(long entries) {
    file_.require_ours();
    if (entries >= entries_) return;
    long left = entries;
    std::uint64_t end = 0;
    if (left > 0) end = each([&](JournalEntry const&) { return --left > 0; });
    file_.cut(end);
    entries_ = entries;
  }

  /// How many entries come before the last so many rows.
  long before_last(long rows) const {
    std::vector<long> before;
    long entry = 0;
    each([&](JournalEntry const& one) {
      if (one.is_row) before.push_back(entry);
      return ++entry, true;
    });
    auto const count = std::min(static_cast<std::size_t>(rows), before.size());
    return count == 0 ? entries_ : before[before.size() - count];
  }

  bool is_empty() const { return file_.size() == 0; }
  /// How many entries there are: rows, and what else was logged.
  long rows() const { return entries_; }
  void sync() const { file_.sync(); }
  std::filesystem::path const& path() const { return file_.path(); }

 private:
  /// go_on(entry) for each, until it says false. Returns the end of the last one.
  template <class F>
  std::uint64_t each(F&& go_on) const {
    FileWindow window(file_.number(), file_.path());
    std::uint64_t at = 0;
    while (std::optional<JournalEntry> const entry = Format::next(window, at, file_.size())) {
      at = entry->end;
      if (!go_on(*entry)) break;
    }
    return at;
  }

  GrowingFile file_;
  long entries_ = 0;
};

/// Where the zeros begin that a file ends with, at `at` at the earliest: a power cut leaves them in the place of bytes
/// that never reached the disk.
std::uint64_t end_of_data(FileWindow& window, std::uint64_t at, std::uint64_t size);

}  // namespace fulgurite::logger

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/journal.ipp>
#endif
