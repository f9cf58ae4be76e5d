#pragma once
// A file of entries that only grows at its end, and can be cut back to its first so many.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/logger/file_window.hpp>
#include <fulgurite/logger/growing_file.hpp>

namespace fulgurite::logger {

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
