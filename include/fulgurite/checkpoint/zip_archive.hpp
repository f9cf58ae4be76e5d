#pragma once
// Reads zip archives that may be damaged or malicious: every offset and length is checked against the file before an
// entry is read. Entries must be stored without compression; nothing is decompressed, and no file is written.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>

namespace fulgurite::zip {

// The layout of a zip archive, as far as PyTorch's files use it: entries stored without compression, the directory of
// the entries, and then the position of the directory, in 64 bits and in 32.

static_assert(std::endian::native == std::endian::little, "zip archives are little endian");

inline constexpr std::uint32_t local_mark = 0x04034b50;      ///< begins the header before each entry's bytes
inline constexpr std::uint32_t directory_mark = 0x02014b50;  ///< begins each entry of the directory
inline constexpr std::uint32_t end64_mark = 0x06064b50;      ///< begins the position of the directory, in 64 bits
inline constexpr std::uint32_t locator_mark = 0x07064b50;    ///< begins the position of that record
inline constexpr std::uint32_t end_mark = 0x06054b50;        ///< begins the position of the directory, in 32 bits
inline constexpr std::size_t local_size = 30, directory_size = 46, end64_size = 56, locator_size = 20, end_size = 22;

/// Flags of an entry: its sizes and its checksum follow after its bytes; its name is UTF-8.
inline constexpr std::uint16_t sizes_follow = 1U << 3, name_is_utf8 = 1U << 11;
/// The value of a 16 or 32 bit field whose number is stored elsewhere in 64 bits.
inline constexpr std::uint64_t elsewhere16 = 0xFFFF, elsewhere = 0xFFFFFFFF;
/// The extra field that holds such numbers.
inline constexpr std::uint16_t wide_numbers = 1;

/// Reads a number. The caller must have checked that its bytes exist.
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

/// Continues the checksum of an entry; it starts with 0.
std::uint32_t checksum(std::uint32_t sum, std::span<std::byte const> bytes);

}  // namespace fulgurite::zip

namespace fulgurite {

/// One entry of an archive.
struct ZipEntry {
  std::string name;
  std::uint64_t header = 0;  ///< where the entry begins in the file
  std::uint64_t begin = 0;   ///< where the entry's bytes begin
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;
  std::uint64_t listed = 0;    ///< where the directory lists the entry
  mutable bool sound = false;  ///< true once the checksum was found to be right
};

/// A zip archive whose entries are stored without compression, opened and checked: entries are inside of the file and
/// do not overlap, so reading one cannot leave it. Throws [fulgurite.checkpoint.pt_zip] with file and byte. Reading
/// records which checksums were right, so only one thread at a time may use an object.
class ZipArchive {
 public:
  using Entry = ZipEntry;

  explicit ZipArchive(std::filesystem::path path);
  FULGURITE_MOVES(ZipArchive);

  std::filesystem::path const& path() const { return file_.path(); }
  std::vector<Entry> const& entries() const& { return entries_; }
  void entries() && = delete;
  /// The entry of that name, or nullptr.
  Entry const* find(std::string_view name) const;
  /// Reads a part of an entry's bytes. The first read of an entry compares the checksum of all of it.
  void read(Entry const& entry, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const { file_.fail(byte, why); }

  void compare(Entry const& entry, std::uint32_t sum) const;
  void verify(Entry const& entry) const;

  /// The header before each entry repeats its name and gives the position of its bytes. Entries must end before `room`.
  void read_headers(std::uint64_t room);

  InputFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// Writes zip archives of stored entries, as torch.save does: each entry's bytes begin at a multiple of 64.

/// Writes entries one after the other to a DurableFile, which the caller commits after `finish()`. Numbers from `wide`
/// on, such as the size of an entry of 4 GiB, are written in 64 bits; tests use a lower limit.
class ZipWriter {
 public:
  explicit ZipWriter(DurableFile& file, std::uint64_t wide = zip::elsewhere) : file_(&file), wide_(wide) {}

  void add(std::string_view name, std::span<std::byte const> bytes);
  void add(std::string_view name, std::string_view text);

  /// Writes the directory. Nothing may be added afterwards.
  void finish();

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::uint16_t version = 45;  // version of the format: 64-bit numbers need 45

  std::uint32_t narrow(std::uint64_t number) const;
  /// Appends the fields that both headers of an entry have.
  void common(std::string& header, std::uint64_t size, std::uint32_t sum, std::string_view name) const;
  static std::string numbers(std::vector<std::uint64_t> const& all);

  DurableFile* file_;
  std::uint64_t wide_;
  std::uint64_t at_ = 0;
  std::uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/zip_archive.ipp>
#endif
