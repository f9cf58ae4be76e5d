#pragma once
// The bodies of checkpoint/zip_archive.hpp.

#include <algorithm>
#include <array>
#include <limits>

#include <zlib.h>

#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite::zip {

FULGURITE_BULK_BODY std::uint32_t checksum(std::uint32_t sum, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const count = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());  // zlib counts in 32 bits
    sum = static_cast<std::uint32_t>(
        ::crc32(sum, reinterpret_cast<Bytef const*>(bytes.data()), static_cast<uInt>(count)));
    bytes = bytes.subspan(count);
  }
  return sum;
}

}  // namespace fulgurite::zip

namespace fulgurite {

/// The directory of an archive: its position, and the entries that it lists, which may be wrong or malicious.
/// ZipArchive checks that they are inside of the file.
class ZipDirectory {
 public:
  explicit ZipDirectory(InputFile const& file) : file_(file) {
    find();
    read();
  }

  std::vector<ZipEntry> entries() { return std::move(entries_); }
  /// Where the directory begins; entries must end before it.
  std::uint64_t begin() const { return begin_; }

 private:
  static constexpr std::uint64_t longest_directory = 100'000'000;
  static constexpr std::size_t longest_name = 1000;

  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const { file_.fail(byte, why); }

  /// The end of the archive gives the position of the directory. Nothing may follow it, so that there is only one way
  /// to read the archive.
  void find() {
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
  void find_wide(std::string const& locator) {
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

  void read() {
    auto const bytes = file_.text(begin_, static_cast<std::size_t>(size_));
    std::size_t at = 0;
    for (std::uint64_t i = 0; i != count_; ++i) at = read_entry(bytes, at);
    if (at != bytes.size()) fail(begin_ + at, "the directory holds more than its entries");
  }
  std::size_t read_entry(std::string const& bytes, std::size_t at) {
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

  /// Numbers that are too large for 32 bits are in an extra field, in the order of this list.
  static void widen(std::string_view extra, std::array<std::uint64_t*, 3> numbers,
                    FunctionRef<void(char const*)> refuse) {
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

  InputFile const& file_;
  std::uint64_t count_ = 0;
  std::uint64_t begin_ = 0, size_ = 0;
  std::uint64_t end_ = 0;  ///< where the directory must end
  std::vector<ZipEntry> entries_;
};

FULGURITE_BODY ZipArchive::ZipArchive(std::filesystem::path path)
    : file_("fulgurite.checkpoint.pt_zip", std::move(path)) {
  if (!file_.is_regular()) fail(0, "this is not a regular file");
  ZipDirectory directory(file_);
  entries_ = directory.entries();
  for (std::size_t i = 0; i != entries_.size(); ++i)
    if (!index_.emplace(entries_[i].name, i).second)
      fail(entries_[i].listed, "'" + entries_[i].name + "' occurs twice");
  read_headers(directory.begin());
}

FULGURITE_MOVES_BODY(ZipArchive);

FULGURITE_BODY ZipArchive::Entry const* ZipArchive::find(std::string_view name) const {
  auto const found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

FULGURITE_BODY void ZipArchive::read(Entry const& entry, std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > entry.size || into.size() > entry.size - offset)
    fail(entry.begin, "'" + entry.name + "' has " + std::to_string(entry.size) + " bytes, and more were asked for");
  bool const whole = into.size() == entry.size;
  if (!whole) verify(entry);
  file_.load(into, entry.begin + offset);
  if (whole) compare(entry, zip::checksum(0, into));
}

FULGURITE_BODY void ZipArchive::compare(Entry const& entry, std::uint32_t sum) const {
  if (sum != entry.checksum)
    fail(entry.begin, "the bytes of '" + entry.name + "' are not those that were saved: their checksum differs");
  entry.sound = true;
}

FULGURITE_BODY void ZipArchive::verify(Entry const& entry) const {
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

FULGURITE_BODY void ZipArchive::read_headers(std::uint64_t room) {
  std::vector<Entry*> order;
  order.reserve(entries_.size());
  for (auto& entry : entries_) order.push_back(&entry);
  // If two entries claim the same bytes, the later one is refused.
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

FULGURITE_BODY void ZipWriter::add(std::string_view name, std::span<std::byte const> bytes) {
  // An extra field pads the header; its number and its letters are those of PyTorch.
  auto const sum = zip::checksum(0, bytes);
  std::uint64_t const size = bytes.size();
  auto const sizes = size < wide_ ? std::string() : numbers({size, size});
  auto const before = at_ + zip::local_size + name.size() + sizes.size() + 4;
  std::size_t const padding = (alignment - before % alignment) % alignment;

  std::string header;
  zip::append(header, zip::local_mark);
  common(header, size, sum, name);
  zip::append(header, static_cast<std::uint16_t>(sizes.size() + 4 + padding));
  header += name;
  header += sizes;
  zip::append(header, std::uint16_t{0x4246});
  zip::append(header, static_cast<std::uint16_t>(padding));
  header.append(padding, 'Z');

  std::string extra;
  if (size >= wide_ && at_ >= wide_) extra = numbers({size, size, at_});
  else if (size >= wide_) extra = numbers({size, size});
  else if (at_ >= wide_) extra = numbers({at_});
  zip::append(directory_, zip::directory_mark);
  zip::append(directory_, std::uint16_t{version});
  common(directory_, size, sum, name);
  zip::append(directory_, static_cast<std::uint16_t>(extra.size()));
  directory_.append(10, '\0');  // no comment, in this file, no attributes
  zip::append(directory_, narrow(at_));
  directory_ += name;
  directory_ += extra;
  ++count_;

  file_->write(header);
  file_->write(bytes);
  at_ += header.size() + size;
}

FULGURITE_BODY void ZipWriter::add(std::string_view name, std::string_view text) {
  add(name, std::as_bytes(std::span(text)));
}

FULGURITE_BODY void ZipWriter::finish() {
  std::uint64_t const size = directory_.size();
  std::string end;
  bool const many = count_ >= zip::elsewhere16;
  if (many || size >= wide_ || at_ >= wide_) {
    zip::append(end, zip::end64_mark);
    zip::append(end, std::uint64_t{zip::end64_size - 12});  // the size of what follows this number
    zip::append(end, std::uint16_t{version});
    zip::append(end, std::uint16_t{version});
    zip::append(end, std::uint64_t{0});  // all in one file
    for (auto const number : {count_, count_, size, at_}) zip::append(end, number);
    zip::append(end, zip::locator_mark);
    zip::append(end, std::uint32_t{0});
    zip::append(end, at_ + size);
    zip::append(end, std::uint32_t{1});
  }
  zip::append(end, zip::end_mark);
  zip::append(end, std::uint32_t{0});
  auto const count = static_cast<std::uint16_t>(many ? zip::elsewhere16 : count_);
  zip::append(end, count);
  zip::append(end, count);
  zip::append(end, narrow(size));
  zip::append(end, narrow(at_));
  zip::append(end, std::uint16_t{0});
  file_->write(directory_);
  file_->write(end);
}

FULGURITE_BODY std::uint32_t ZipWriter::narrow(std::uint64_t number) const {
  return static_cast<std::uint32_t>(number < wide_ ? number : zip::elsewhere);
}

FULGURITE_BODY void ZipWriter::common(std::string& header, std::uint64_t size, std::uint32_t sum,
                                      std::string_view name) const {
  zip::append(header, std::uint16_t{version});
  zip::append(header, zip::name_is_utf8);
  zip::append(header, std::uint16_t{0});           // stored without compression
  zip::append(header, std::uint32_t{0x00210000});  // 1980-01-01: the same weights make the same bytes
  zip::append(header, sum);
  zip::append(header, narrow(size));
  zip::append(header, narrow(size));
  zip::append(header, static_cast<std::uint16_t>(name.size()));
}

FULGURITE_BODY std::string ZipWriter::numbers(std::vector<std::uint64_t> const& all) {
  std::string field;
  zip::append(field, zip::wide_numbers);
  zip::append(field, static_cast<std::uint16_t>(8 * all.size()));
  for (auto const one : all) zip::append(field, one);
  return field;
}

}  // namespace fulgurite
