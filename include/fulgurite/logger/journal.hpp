#pragma once
// A file of entries that only grows at its end, and can be cut back to its first so many.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

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
FULGURITE_BULK std::string utf8_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    auto const bytes = utf8::length(text, at);
    if (bytes == 0) out += "\xEF\xBF\xBD";
    else out += text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

// Rows of a CSV file as text, and back: a cell may hold commas, quotes and line breaks.

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

// Looks into an open file piece by piece, from its beginning to its end, without holding all of it.

/// The bytes of a file from an offset on: `window.at(offset, 12)`.
class FileWindow {
 public:
  FileWindow(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}

  /// So many bytes from `offset` on, fewer where the file ends before; valid until the next call.
  FULGURITE_BULK std::string_view at(std::uint64_t offset, std::size_t count) {
    if (offset < begin_ || offset + count > begin_ + filled_) {
      begin_ = offset;
      filled_ = 0;
      bytes_.resize(std::max<std::size_t>(count, 65536));
      auto const read = file::read_at(descriptor_, std::as_writable_bytes(std::span(bytes_)), offset);
      if (read < 0) file::fail("fulgurite.file.read", "read", path_, errno);
      filled_ = static_cast<std::size_t>(read);
    }
    auto const skipped = static_cast<std::size_t>(offset - begin_);
    return std::string_view(bytes_.data(), filled_).substr(std::min(skipped, filled_), count);
  }

  /// What is at hand from `offset` on, at least one byte where the file has any there.
  std::string_view from(std::uint64_t offset) {
    bool const inside = offset >= begin_ && offset < begin_ + filled_;
    return at(offset, inside ? static_cast<std::size_t>(begin_ + filled_ - offset) : 65536);
  }

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
  explicit GrowingFile(std::filesystem::path path) : path_(std::move(path)) { open(); }

  bool is_there() const { return static_cast<bool>(descriptor_); }
  int number() const { return descriptor_.number(); }
  std::uint64_t size() const { return size_; }
  std::filesystem::path const& path() const { return path_; }

  /// Opens what is at the path now; false where there is nothing. A file that exists and cannot be read must not be
  /// mistaken for a new one.
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

  /// Makes sure that the file at the path is the one with what was written so far, and that nobody else has written to
  /// it. Where it is gone, it is made again.
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

  /// Adds a piece at the end. The first one makes the file, durably.
  FULGURITE_COLD void append(std::string_view piece) {
    if (!descriptor_) {
      write_durably(path_, piece);
      open();
      return;
    }
    int const error = file::write_all(descriptor_.number(), piece);
    if (error == 0) {
      size_ += piece.size();
      return;
    }
    // Half a row would be glued to the next one; if even this fails there is nothing left to do.
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(size_)) != 0) errno = 0;
    file::fail("fulgurite.file.write", "append a row to", path_, error);
  }

  /// Cuts off what follows the first `size` bytes. A reader that has the file open sees it shrink.
  FULGURITE_COLD void cut(std::uint64_t size) {
    if (size >= size_) return;
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(size)) != 0)
      file::fail("fulgurite.file.write", "drop rows of", path_, errno);
    size_ = size;
    sync();
  }

  /// Waits until all of it is on the disk: a file that tells of it may be written then.
  FULGURITE_COLD void sync() const {
    if (descriptor_ && ::fdatasync(descriptor_.number()) != 0)
      file::fail("fulgurite.file.write", "make durable the rows of", path_, errno);
  }

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
FULGURITE_BULK std::uint64_t end_of_data(FileWindow& window, std::uint64_t at, std::uint64_t size) {
  std::uint64_t end = at;
  while (at < size) {
    auto const bytes = window.at(at, 65536);
    if (bytes.empty()) break;
    auto const last = bytes.find_last_not_of('\0');
    if (last != std::string_view::npos) end = at + last + 1;
    at += bytes.size();
  }
  return end;
}

}  // namespace fulgurite::logger
