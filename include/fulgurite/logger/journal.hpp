#pragma once
// A file of entries that grows only at its end, and can be cut back to its first entries.

#include <algorithm>
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

/// A cell of a row, with the name of its column.
struct Cell {
  std::string_view column;
  double value;
  bool whole = false;  ///< written as an integer
};

// Names and texts for formats that accept only UTF-8.

/// The text, with U+FFFD instead of each byte that is not UTF-8: a reader would refuse the whole row because of one
/// such byte.
std::string utf8_text(std::string_view text);

// Reads an open file piece by piece, without holding all of it.

/// The bytes of a file from an offset on: `window.at(offset, 12)`.
class FileWindow {
 public:
  FileWindow(int descriptor, std::filesystem::path path);

  std::filesystem::path const& path() const { return path_; }

  /// Up to `count` bytes from `offset` on, fewer at the end of the file; valid until the next call.
  std::string_view at(std::uint64_t offset, std::size_t count);

  /// The buffered bytes from `offset` on, at least one if the file has any there.
  std::string_view from(std::uint64_t offset);

 private:
  int descriptor_;
  std::filesystem::path path_;  ///< for errors
  std::vector<char> bytes_{};
  std::uint64_t begin_ = 0;  ///< the offset of the bytes in the file
  std::size_t filled_ = 0;
};

// Rows of a CSV file to text and back: a cell may contain commas, quotes and line breaks.

/// One row as text, which a CsvReader reads back as these cells.
std::string csv_row(std::vector<std::string> const& cells);

/// Reads the rows of an open file one by one, so a long table need not fit into memory. A row ends at a line break
/// outside of quotes.
class CsvReader {
 public:
  CsvReader(int descriptor, std::filesystem::path const& path) : window_(descriptor, path) {}

  /// Reads the next row's cells; false at the end.
  bool next(std::vector<std::string>& cells);

 private:
  int peek();
  int take();

  FileWindow window_;
  std::string_view read_{};   ///< what was read, and is not taken yet
  std::uint64_t offset_ = 0;  ///< of the bytes after it
};

// A file that grows at its end, and whose writer knows its exact contents.

/// Each piece is handed to the kernel by one write(2) before `append` returns: if the process is killed, none is lost;
/// a power cut may lose those that are not on disk yet. If the file was deleted or moved away meanwhile, it is written
/// again with all of its contents. If another program has written to it or replaced it, it is left alone, and
/// `require_ours` throws [fulgurite.logger.table_changed].
class GrowingFile {
 public:
  /// Opens the file, if it exists.
  explicit GrowingFile(std::filesystem::path path);

  bool is_there() const { return static_cast<bool>(descriptor_); }
  int number() const { return descriptor_.number(); }
  std::uint64_t size() const { return size_; }
  std::filesystem::path const& path() const { return path_; }

  /// Opens the file that is at the path now; returns false if there is none. A file that exists but cannot be read
  /// throws, since it must not be mistaken for a new one.
  bool open();

  /// Checks that the file at the path is the one that was written so far, and that no other program has written to it.
  /// If it is gone, it is made again.
  void require_ours();

  /// Adds a piece at the end. The first piece creates the file, durably.
  void append(std::string_view piece);

  /// Removes everything after the first `size` bytes. A reader that has the file open sees it shrink.
  void cut(std::uint64_t size);

  /// Waits until all of it is on disk. Call it before a checkpoint that refers to it is written.
  void sync() const;

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;  ///< the size after this object's last write
};

/// Where an entry ends, and whether it is a row of metrics.
struct JournalEntry {
  std::uint64_t end = 0;
  bool is_row = false;
};

/// Entries one after the other. `Format::next(window, at, size)` returns the entry that begins at `at` in a file of
/// `size` bytes, or nullopt if it is not complete. An incomplete last entry, which a power cut has left, is cut off
/// when the file is opened, since an entry after it could not be found. If more bytes follow it, the file is damaged or
/// not a journal, and opening it throws [fulgurite.logger.damaged].
template <class Format>
class Journal {
 public:
  /// Opens a journal. An existing journal is continued.
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

  /// Adds `count` entries at once.
  void append(std::string_view bytes, long count = 1) {
    file_.require_ours();
    file_.append(bytes);
    entries_ += count;
  }

  /// Drops all entries after the first `entries`.
  void keep(long entries) {
    file_.require_ours();
    if (entries >= entries_) return;
    long left = entries;
    std::uint64_t end = 0;
    if (left > 0) end = each([&](JournalEntry const&) { return --left > 0; });
    file_.cut(end);
    entries_ = entries;
  }

  /// The number of entries before the last `rows` rows.
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
  /// The number of entries: rows, and everything else that was logged.
  long rows() const { return entries_; }
  void sync() const { file_.sync(); }
  std::filesystem::path const& path() const { return file_.path(); }

 private:
  /// Calls visit(entry) for each entry until it returns false. Returns the end of the last entry.
  template <class F>
  std::uint64_t each(F&& visit) const {
    FileWindow window(file_.number(), file_.path());
    std::uint64_t at = 0;
    while (std::optional<JournalEntry> const entry = Format::next(window, at, file_.size())) {
      at = entry->end;
      if (!visit(*entry)) break;
    }
    return at;
  }

  GrowingFile file_;
  long entries_ = 0;
};

/// Where the zeros at the end of a file begin, not before `at`: after a power cut, zeros replace bytes that never
/// reached the disk.
std::uint64_t end_of_data(FileWindow& window, std::uint64_t at, std::uint64_t size);

}  // namespace fulgurite::logger

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/journal.ipp>
#endif
