#pragma once
// Reads zip archives that may be damaged or malicious: every offset and length is checked against the file before an
// entry is read. Entries have to be stored as they are; nothing is decompressed, and nothing is written anywhere.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::zip {

// The layout of a zip archive, as far as a file of PyTorch uses it: entries that are stored as they are, then their
// directory, then where the directory is, in 64 bits and in 32.

static_assert(std::endian::native == std::endian::little, "zip archives are little endian");

inline constexpr std::uint32_t local_mark = 0x04034b50;      ///< begins the header before each entry's bytes
inline constexpr std::uint32_t directory_mark = 0x02014b50;  ///< begins each entry of the directory
inline constexpr std::uint32_t end64_mark = 0x06064b50;      ///< says where the directory is, in 64 bits
inline constexpr std::uint32_t locator_mark = 0x07064b50;    ///< says where that is
inline constexpr std::uint32_t end_mark = 0x06054b50;        ///< says where the directory is, in 32 bits
inline constexpr std::size_t local_size = 30, directory_size = 46, end64_size = 56, locator_size = 20, end_size = 22;

/// Flags of an entry: its sizes and its checksum follow behind its bytes; its name is UTF-8.
inline constexpr std::uint16_t sizes_follow = 1U << 3, name_is_utf8 = 1U << 11;
/// What a field of 16 or 32 bits holds when the number stands elsewhere in 64.
inline constexpr std::uint64_t elsewhere16 = 0xFFFF, elsewhere = 0xFFFFFFFF;
/// The extra field that holds such numbers.
inline constexpr std::uint16_t wide_numbers = 1;

/// A number of the archive. The caller has made sure that its bytes are there.
template <class I>
I number(std::string_view bytes, std::size_t at) {
  I value{};
  std::memcpy(&value, bytes.data() + at, sizeof(I));
  return value;
}

/// Appends a number.
template <class I>
void append(std::string& bytes, I value) {
  char raw[sizeof(I)];
  std::memcpy(raw, &value, sizeof(I));
  bytes.append(raw, sizeof(I));
}

/// Goes on with the checksum of an archive's entries; it begins with 0.
FULGURITE_BULK std::uint32_t checksum(std::uint32_t sum, std::span<std::byte const> bytes) {
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

// The bytes of an archive, read from its file at any place.

/// Errors are [fulgurite.checkpoint.pt_zip] with file and byte.
class ZipFile {
 public:
  explicit ZipFile(std::filesystem::path path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (!descriptor_ || ::fstat(descriptor_.number(), &status) != 0) file::fail(identifier, "open", path_, errno);
    if (!S_ISREG(status.st_mode)) fail(0, "this is not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::filesystem::path const& path() const { return path_; }
  std::uint64_t size() const { return size_; }
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

 private:
  static constexpr std::string_view identifier = "fulgurite.checkpoint.pt_zip";

  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
};

// The directory of a zip archive: where it is, and what it says of the entries, which may be wrong or malicious.

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

// Writes zip archives of stored entries, as torch.save does: each entry's bytes begin at a multiple of 64.

/// Puts entries one after the other into a DurableFile, which the caller commits after `finish()`. Numbers of `wide` or
/// more, such as the size of an entry of 4 GiB, are written in 64 bits; tests ask for that earlier.
class ZipWriter {
 public:
  explicit ZipWriter(DurableFile& file, std::uint64_t wide = zip::elsewhere) : file_(&file), wide_(wide) {}

  FULGURITE_COLD void add(std::string_view name, std::span<std::byte const> bytes) {
    // The header is padded by an extra field; this one's number and its letters are those of PyTorch.
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
  void add(std::string_view name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }

  /// Writes the directory. Nothing may be added afterwards.
  FULGURITE_COLD void finish() {
    std::uint64_t const size = directory_.size();
    std::string end;
    bool const many = count_ >= zip::elsewhere16;
    if (many || size >= wide_ || at_ >= wide_) {
      zip::append(end, zip::end64_mark);
      zip::append(end, std::uint64_t{zip::end64_size - 12});  // what follows this number
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

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::uint16_t version = 45;  // of the format: it has numbers of 64 bits

  std::uint32_t narrow(std::uint64_t number) const {
    return static_cast<std::uint32_t>(number < wide_ ? number : zip::elsewhere);
  }
  /// What both headers of an entry hold.
  FULGURITE_COLD void common(std::string& header, std::uint64_t size, std::uint32_t sum, std::string_view name) const {
    zip::append(header, std::uint16_t{version});
    zip::append(header, zip::name_is_utf8);
    zip::append(header, std::uint16_t{0});           // stored
    zip::append(header, std::uint32_t{0x00210000});  // 1980-01-01: the same weights make the same bytes
    zip::append(header, sum);
    zip::append(header, narrow(size));
    zip::append(header, narrow(size));
    zip::append(header, static_cast<std::uint16_t>(name.size()));
  }
  FULGURITE_COLD static std::string numbers(std::vector<std::uint64_t> const& all) {
    std::string field;
    zip::append(field, zip::wide_numbers);
    zip::append(field, static_cast<std::uint16_t>(8 * all.size()));
    for (auto const one : all) zip::append(field, one);
    return field;
  }

  DurableFile* file_;
  std::uint64_t wide_;
  std::uint64_t at_ = 0;
  std::uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace fulgurite
