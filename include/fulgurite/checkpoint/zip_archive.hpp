#pragma once
// Reads zip archives that may be damaged or malicious: every offset and length is checked against the file before an
// entry is read. Entries have to be stored as they are; nothing is decompressed, and nothing is written anywhere.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/zip_layout.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/utf8.hpp>

namespace fulgurite {

/// A zip archive whose entries are stored without compression, opened and checked: entries lie inside the file and do
/// not overlap, so reading one cannot leave it. Errors are [fulgurite.checkpoint.pt_zip] with file and byte. Reading
/// remembers whose checksum was right, so an object serves one thread at a time.
class ZipArchive {
 public:
  struct Entry {
    std::string name;
    std::uint64_t header = 0;  ///< where the entry begins in the file
    std::uint64_t begin = 0;   ///< where its bytes begin
    std::uint64_t size = 0;
    std::uint32_t checksum = 0;
    mutable bool sound = false;  ///< whether the checksum has been found to be right
  };
  static constexpr std::uint64_t longest_directory = 100'000'000;
  static constexpr std::size_t longest_name = 1000;

  explicit ZipArchive(std::filesystem::path path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (!descriptor_ || ::fstat(descriptor_.number(), &status) != 0) file::fail(identifier, "open", path_, errno);
    if (!S_ISREG(status.st_mode)) fail(0, "this is not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
    find_directory();
    read_directory();
    read_headers();
  }

  std::filesystem::path const& path() const { return path_; }
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
    load(into, entry.begin + offset);
    if (whole) compare(entry, zip::checksum(0, into));
  }

 private:
  static constexpr std::string_view identifier = "fulgurite.checkpoint.pt_zip";

  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const {
    throw Error(identifier, path_.string() + ", byte " + std::to_string(byte) + ": " + why);
  }
  FULGURITE_COLD void load(std::span<std::byte> into, std::uint64_t offset) const {
    auto const count = file::read_at(descriptor_.number(), into, offset);
    if (count < 0) file::fail(identifier, "read", path_, errno);
    if (static_cast<std::size_t>(count) != into.size())
      fail(offset + static_cast<std::uint64_t>(count), "the file became shorter while it was read");
  }
  std::string text(std::uint64_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    load(std::as_writable_bytes(std::span(bytes)), offset);
    return bytes;
  }

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
      load(now, entry.begin + at);
      sum = zip::checksum(sum, now);
      at += now.size();
    }
    compare(entry, sum);
  }

  /// The end of the archive says where the directory is. Nothing may follow it, so that there is one way to read it.
  FULGURITE_COLD void find_directory() {
    if (size_ < zip::end_size) fail(size_, "the file is too short for an archive of PyTorch");
    auto const at = size_ - zip::end_size;
    auto const end = text(at, zip::end_size);
    if (zip::number<std::uint32_t>(end, 0) != zip::end_mark || zip::number<std::uint16_t>(end, 20) != 0)
      fail(at, "the end of a zip archive expected: the file is cut short, or it is not one that torch.save wrote since "
               "PyTorch 1.6");
    if (zip::number<std::uint32_t>(end, 4) != 0) fail(at + 4, "an archive in several files");
    count_ = zip::number<std::uint16_t>(end, 10);
    std::uint64_t const size = zip::number<std::uint32_t>(end, 12), offset = zip::number<std::uint32_t>(end, 16);
    directory_ = {offset, size};
    directory_end_ = at;
    if (at >= zip::locator_size) {
      auto const locator = text(at - zip::locator_size, zip::locator_size);
      if (zip::number<std::uint32_t>(locator, 0) == zip::locator_mark) find_wide_directory(locator);
    }
    if (directory_.second > longest_directory) fail(at, "the directory of the archive is too long");
    if (directory_.first > directory_end_ || directory_.second != directory_end_ - directory_.first)
      fail(at, "the directory of the archive does not lie before its end");
    if (count_ > directory_.second / zip::directory_size) fail(at, "the directory is too short for its entries");
  }
  FULGURITE_COLD void find_wide_directory(std::string const& locator) {
    auto const at = zip::number<std::uint64_t>(locator, 8);
    auto const before = directory_end_ - zip::locator_size;
    if (before < zip::end64_size || at != before - zip::end64_size)
      fail(before, "the place of the directory, in 64 bits, does not lie before this");
    auto const end = text(at, zip::end64_size);
    if (zip::number<std::uint32_t>(end, 0) != zip::end64_mark || zip::number<std::uint64_t>(end, 4) != 44)
      fail(at, "the place of the directory, in 64 bits, expected");
    auto const count = zip::number<std::uint64_t>(end, 32), size = zip::number<std::uint64_t>(end, 40),
               offset = zip::number<std::uint64_t>(end, 48);
    auto const agree = [](std::uint64_t narrow, std::uint64_t wide, std::uint64_t marker) {
      return narrow == marker || narrow == wide;
    };
    if (!agree(count_, count, zip::elsewhere16) || !agree(directory_.second, size, zip::elsewhere) ||
        !agree(directory_.first, offset, zip::elsewhere))
      fail(at, "two places of the directory that differ");
    count_ = count;
    directory_ = {offset, size};
    directory_end_ = at;
  }

  FULGURITE_COLD void read_directory() {
    auto const bytes = text(directory_.first, static_cast<std::size_t>(directory_.second));
    std::size_t at = 0;
    for (std::uint64_t i = 0; i != count_; ++i) at = read_entry(bytes, at);
    if (at != bytes.size()) fail(directory_.first + at, "the directory holds more than its entries");
  }
  FULGURITE_COLD std::size_t read_entry(std::string const& bytes, std::size_t at) {
    auto const here = directory_.first + at;
    if (bytes.size() - at < zip::directory_size || zip::number<std::uint32_t>(bytes, at) != zip::directory_mark)
      fail(here, "an entry of the directory expected");
    auto const narrow = [&](std::size_t offset) { return zip::number<std::uint16_t>(bytes, at + offset); };
    auto const wide = [&](std::size_t offset) { return zip::number<std::uint32_t>(bytes, at + offset); };
    std::size_t const name = narrow(28), extra = narrow(30), comment = narrow(32);
    if (bytes.size() - at - zip::directory_size < name + extra + comment) fail(here, "the directory ends in an entry");
    Entry entry{bytes.substr(at + zip::directory_size, name), wide(42), 0, wide(24), wide(16)};
    if (name > longest_name || !utf8::is_valid(entry.name))
      fail(here, "the name of an entry is too long, or not UTF-8");
    auto const refuse = [&](char const* why) { fail(here, "'" + entry.name + "' " + why); };
    if (narrow(10) != 0) refuse("is compressed, which torch.save never does");
    if ((narrow(8) & ~(zip::sizes_follow | zip::name_is_utf8)) != 0) refuse("is encrypted, or of an unknown kind");
    if (narrow(34) != 0) refuse("lies in another file");
    std::uint64_t stored = wide(20);
    widen(std::string_view(bytes).substr(at + zip::directory_size + name, extra), {&entry.size, &stored, &entry.header},
          refuse);
    if (stored != entry.size) refuse("is compressed: its two sizes differ");
    if (!index_.emplace(entry.name, entries_.size()).second) refuse("occurs twice");
    entries_.push_back(std::move(entry));
    return at + zip::directory_size + name + extra + comment;
  }
  /// Numbers that are too large for 32 bits stand in an extra field, in the order of this list.
  template <class Refuse>
  static void widen(std::string_view extra, std::array<std::uint64_t*, 3> numbers, Refuse const& refuse) {
    std::string_view wide;
    while (extra.size() >= 4) {
      std::size_t const size = zip::number<std::uint16_t>(extra, 2);
      if (size > extra.size() - 4) refuse("has an extra field that leaves its place");
      if (zip::number<std::uint16_t>(extra, 0) == zip::wide_numbers) wide = extra.substr(4, size);
      extra.remove_prefix(4 + size);
    }
    for (auto* one : numbers)
      if (*one == zip::elsewhere) {
        if (wide.size() < 8) refuse("lacks a number of 64 bits");
        *one = zip::number<std::uint64_t>(wide, 0);
        wide.remove_prefix(8);
      }
  }

  /// The header before each entry repeats its name, and says where its bytes begin.
  FULGURITE_COLD void read_headers() {
    std::vector<Entry*> order;
    order.reserve(entries_.size());
    for (auto& entry : entries_) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](Entry const* a, Entry const* b) { return a->header < b->header; });
    std::uint64_t free = 0;
    for (auto* entry : order) {
      auto const refuse = [&](char const* why) { fail(entry->header, "'" + entry->name + "' " + why); };
      if (entry->header < free) refuse("overlaps the entry before it");
      auto const room = directory_.first;
      auto const needs = zip::local_size + entry->name.size();
      if (entry->header > room || room - entry->header < needs) refuse("begins behind the last byte of the entries");
      auto const header = text(entry->header, needs);
      if (zip::number<std::uint32_t>(header, 0) != zip::local_mark || zip::number<std::uint16_t>(header, 8) != 0 ||
          zip::number<std::uint16_t>(header, 26) != entry->name.size() ||
          std::string_view(header).substr(zip::local_size) != entry->name)
        refuse("has another header in its place");
      entry->begin = entry->header + needs + zip::number<std::uint16_t>(header, 28);
      if (entry->begin > room || entry->size > room - entry->begin) refuse("ends behind the last byte of the entries");
      free = entry->begin + entry->size;
    }
  }

  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
  std::uint64_t count_ = 0;
  std::pair<std::uint64_t, std::uint64_t> directory_;  // its offset and size
  std::uint64_t directory_end_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace fulgurite
