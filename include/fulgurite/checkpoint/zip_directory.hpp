#pragma once
// The directory of a zip archive: where it is, and what it says of the entries, which may be wrong or malicious.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/zip_file.hpp>
#include <fulgurite/checkpoint/zip_layout.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/utf8.hpp>

namespace fulgurite {

/// One entry of an archive.
struct ZipEntry {
  std::string name;
  std::uint64_t header = 0;  ///< where the entry begins in the file
  std::uint64_t begin = 0;   ///< where its bytes begin
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;
  std::uint64_t listed = 0;    ///< where the directory tells of it
  mutable bool sound = false;  ///< whether the checksum has been found to be right
};

/// Read as a whole by its construction. Whether entries lie where they can is left to ZipArchive.
class ZipDirectory {
 public:
  static constexpr std::uint64_t longest_directory = 100'000'000;
  static constexpr std::size_t longest_name = 1000;

  explicit ZipDirectory(ZipFile const& file) : file_(file) {
    find();
    read();
  }

  std::vector<ZipEntry> entries() { return std::move(entries_); }
  /// Where it begins, and entries have to end.
  std::uint64_t begin() const { return begin_; }

 private:
  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const { file_.fail(byte, why); }

  /// The end of the archive says where the directory is. Nothing may follow it, so that there is one way to read it.
  FULGURITE_COLD void find() {
    if (file_.size() < zip::end_size) fail(file_.size(), "the file is too short for an archive of PyTorch");
    auto const at = file_.size() - zip::end_size;
    auto const end = file_.text(at, zip::end_size);
    if (zip::number<std::uint32_t>(end, 0) != zip::end_mark || zip::number<std::uint16_t>(end, 20) != 0)
      fail(at, "the end of a zip archive expected: the file is cut short, or it is not one that torch.save wrote since "
               "PyTorch 1.6");
    if (zip::number<std::uint32_t>(end, 4) != 0) fail(at + 4, "an archive in several files");
    count_ = zip::number<std::uint16_t>(end, 10);
    std::uint64_t const size = zip::number<std::uint32_t>(end, 12), offset = zip::number<std::uint32_t>(end, 16);
    begin_ = offset;
    size_ = size;
    end_ = at;
    if (at >= zip::locator_size) {
      auto const locator = file_.text(at - zip::locator_size, zip::locator_size);
      if (zip::number<std::uint32_t>(locator, 0) == zip::locator_mark) find_wide(locator);
    }
    if (size_ > longest_directory) fail(at, "the directory of the archive is too long");
    if (begin_ > end_ || size_ != end_ - begin_) fail(at, "the directory of the archive does not lie before its end");
    if (count_ > size_ / zip::directory_size) fail(at, "the directory is too short for its entries");
  }
  FULGURITE_COLD void find_wide(std::string const& locator) {
    auto const at = zip::number<std::uint64_t>(locator, 8);
    auto const before = end_ - zip::locator_size;
    if (before < zip::end64_size || at != before - zip::end64_size)
      fail(before, "the place of the directory, in 64 bits, does not lie before this");
    auto const end = file_.text(at, zip::end64_size);
    if (zip::number<std::uint32_t>(end, 0) != zip::end64_mark || zip::number<std::uint64_t>(end, 4) != 44)
      fail(at, "the place of the directory, in 64 bits, expected");
    auto const count = zip::number<std::uint64_t>(end, 32), size = zip::number<std::uint64_t>(end, 40),
               offset = zip::number<std::uint64_t>(end, 48);
    auto const agree = [](std::uint64_t narrow, std::uint64_t wide, std::uint64_t marker) {
      return narrow == marker || narrow == wide;
    };
    if (!agree(count_, count, zip::elsewhere16) || !agree(size_, size, zip::elsewhere) ||
        !agree(begin_, offset, zip::elsewhere))
      fail(at, "two places of the directory that differ");
    count_ = count;
    begin_ = offset;
    size_ = size;
    end_ = at;
  }

  FULGURITE_COLD void read() {
    auto const bytes = file_.text(begin_, static_cast<std::size_t>(size_));
    std::size_t at = 0;
    for (std::uint64_t i = 0; i != count_; ++i) at = read_entry(bytes, at);
    if (at != bytes.size()) fail(begin_ + at, "the directory holds more than its entries");
  }
  FULGURITE_COLD std::size_t read_entry(std::string const& bytes, std::size_t at) {
    auto const here = begin_ + at;
    if (bytes.size() - at < zip::directory_size || zip::number<std::uint32_t>(bytes, at) != zip::directory_mark)
      fail(here, "an entry of the directory expected");
    auto const narrow = [&](std::size_t offset) { return zip::number<std::uint16_t>(bytes, at + offset); };
    auto const wide = [&](std::size_t offset) { return zip::number<std::uint32_t>(bytes, at + offset); };
    std::size_t const name = narrow(28), extra = narrow(30), comment = narrow(32);
    if (bytes.size() - at - zip::directory_size < name + extra + comment) fail(here, "the directory ends in an entry");
    ZipEntry entry{bytes.substr(at + zip::directory_size, name), wide(42), 0, wide(24), wide(16), here};
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

  ZipFile const& file_;
  std::uint64_t count_ = 0;
  std::uint64_t begin_ = 0, size_ = 0;
  std::uint64_t end_ = 0;  ///< where it has to end
  std::vector<ZipEntry> entries_;
};

}  // namespace fulgurite
