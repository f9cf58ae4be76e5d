#pragma once
// Reads zip archives that may be damaged or malicious: every offset and length is checked against the file before an
// entry is read. Entries have to be stored as they are; nothing is decompressed, and nothing is written anywhere.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/zip_directory.hpp>
#include <fulgurite/checkpoint/zip_file.hpp>
#include <fulgurite/checkpoint/zip_layout.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>

namespace fulgurite {

/// A zip archive whose entries are stored without compression, opened and checked: entries lie inside the file and do
/// not overlap, so reading one cannot leave it. Errors are [fulgurite.checkpoint.pt_zip] with file and byte. Reading
/// remembers whose checksum was right, so an object serves one thread at a time.
class ZipArchive {
 public:
  using Entry = ZipEntry;

  explicit ZipArchive(std::filesystem::path path) : file_(std::move(path)) {
    ZipDirectory directory(file_);
    entries_ = directory.entries();
    for (std::size_t i = 0; i != entries_.size(); ++i)
      if (!index_.emplace(entries_[i].name, i).second)
        fail(entries_[i].listed, "'" + entries_[i].name + "' occurs twice");
    read_headers(directory.begin());
  }

  std::filesystem::path const& path() const { return file_.path(); }
  std::vector<Entry> const& entries() const& { return entries_; }
  void entries() && = delete;
  /// The entry of that name, or nullptr.
  Entry const* find(std::string_view name) const {
    auto const found = index_.find(name);
    return found == index_.end() ? nullptr : &entries_[found->second];
  }
  /// Reads a part of an entry's bytes. The first time, the checksum of the whole entry is compared.
  FULGURITE_COLD void read(Entry const& entry, std::uint64_t offset, std::span<std::byte> into) const {
    if (offset > entry.size || into.size() > entry.size - offset)
      fail(entry.begin, "'" + entry.name + "' has " + std::to_string(entry.size) + " bytes, and more were asked for");
    bool const whole = into.size() == entry.size;
    if (!whole) verify(entry);
    file_.load(into, entry.begin + offset);
    if (whole) compare(entry, zip::checksum(0, into));
  }

 private:
  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const { file_.fail(byte, why); }

  void compare(Entry const& entry, std::uint32_t sum) const {
    if (sum != entry.checksum)
      fail(entry.begin, "the bytes of '" + entry.name + "' are not those that were saved: their checksum differs");
    entry.sound = true;
  }
  FULGURITE_COLD void verify(Entry const& entry) const {
    if (entry.sound) return;
    std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(entry.size, 1U << 20)));
    std::uint32_t sum = 0;
    for (std::uint64_t at = 0; at != entry.size;) {
      auto const now =
          std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), entry.size - at)));
      file_.load(now, entry.begin + at);
      sum = zip::checksum(sum, now);
      at += now.size();
    }
    compare(entry, sum);
  }

  /// The header before each entry repeats its name, and says where its bytes begin. Entries end where there is no more
  /// `room`.
  FULGURITE_COLD void read_headers(std::uint64_t room) {
    std::vector<Entry*> order;
    order.reserve(entries_.size());
    for (auto& entry : entries_) order.push_back(&entry);
    // Of two that claim the same place the later one is at fault.
    sort_seldom(order,
                [](Entry const* a, Entry const* b) { return a->header != b->header ? a->header < b->header : a < b; });
    std::uint64_t free = 0;
    for (auto* entry : order) {
      auto const refuse = [&](char const* why) { fail(entry->header, "'" + entry->name + "' " + why); };
      if (entry->header < free) refuse("overlaps the entry before it");
      auto const needs = zip::local_size + entry->name.size();
      if (entry->header > room || room - entry->header < needs) refuse("begins behind the last byte of the entries");
      auto const header = file_.text(entry->header, needs);
      if (zip::number<std::uint32_t>(header, 0) != zip::local_mark || zip::number<std::uint16_t>(header, 8) != 0 ||
          zip::number<std::uint16_t>(header, 26) != entry->name.size() ||
          std::string_view(header).substr(zip::local_size) != entry->name)
        refuse("has another header in its place");
      entry->begin = entry->header + needs + zip::number<std::uint16_t>(header, 28);
      if (entry->begin > room || entry->size > room - entry->begin) refuse("ends behind the last byte of the entries");
      free = entry->begin + entry->size;
    }
  }

  ZipFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace fulgurite
