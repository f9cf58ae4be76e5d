#pragma once
// Named tensors in one file that every framework reads: `write_safetensors` and `SafetensorsFile`.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

// The layout of a safetensors file (https://github.com/huggingface/safetensors#format), which every framework reads:
// 8 bytes little-endian length of the header, the header as JSON padded with spaces to 8 bytes, then the tensors
// without gaps.

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

/// Texts stored with the tensors, by name: the position in the run, hyper-parameters, the state of callbacks.
using Metadata = std::map<std::string, std::string>;

namespace safetensors {

inline constexpr std::uint64_t longest_header = 100'000'000;  ///< the format's own limit

/// The position of one tensor in a file. Offsets count from the end of the header.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The header with its padding, but without the eight bytes of its length.
std::string header_of(std::vector<Entry> const& entries, Metadata const& metadata);

// Checksums inside a safetensors file, as two entries of its metadata, which other programs ignore: one with a checksum
// for each tensor, one for the header that holds them. Each is eight hexadecimal digits of CRC-32C.

/// The entry with the checksums of the tensors, in the order of their bytes.
inline constexpr char const* tensor_sums_key = "fulgurite.crc32c";
/// The entry with the checksum of the header, computed with zeros in its place.
inline constexpr char const* header_sum_key = "fulgurite.header";

inline constexpr std::size_t sum_digits = 8;

std::string sum_text(std::uint32_t sum);

/// Where the value of such an entry begins in a header that header_of made. The same text cannot occur elsewhere, since
/// quotes inside of strings are escaped.
std::size_t sum_place(std::string_view header, std::string_view key);

/// The checksum of a header that has one.
std::uint32_t header_sum(std::string header);

}  // namespace safetensors

/// A safetensors file, opened and checked: every claim of its header is verified before a tensor is read, so `read`
/// cannot leave the file. Only the header is kept in memory. Throws [fulgurite.checkpoint.safetensors] with file and
/// byte for an invalid file. If the file has checksums, its header and each tensor that is read must match them;
/// otherwise the Error is [fulgurite.checkpoint.checksum].
///
///     SafetensorsFile const weights("best.safetensors");
///     for (auto const& entry : weights.entries()) std::cout << entry.name << ' ' << entry.dtype << '\n';
class SafetensorsFile {
 public:
  using Entry = safetensors::Entry;

  explicit SafetensorsFile(std::filesystem::path path);
  FULGURITE_MOVES(SafetensorsFile);

  std::filesystem::path const& path() const { return file_.path(); }
  Metadata const& metadata() const& { return metadata_; }
  /// The tensors, in the order of their bytes.
  std::vector<Entry> const& entries() const& { return entries_; }
  void
  metadata() && = delete;  // `for (auto& e : SafetensorsFile(path).entries())` would iterate over a destroyed object
  void entries() && = delete;
  /// The tensor of that name, or nullptr.
  Entry const* find(std::string_view name) const;
  /// Reads a tensor's bytes into `into`, which must have exactly the tensor's size.
  void read(Entry const& entry, std::span<std::byte> into) const;
  /// True if there are checksums of each tensor and of the header.
  bool has_checksums() const { return sums_.has_value(); }
  /// Reads all tensors and compares their checksums.
  void verify() const;

 private:
  static constexpr std::string_view identifier = "fulgurite.checkpoint.safetensors";

  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const { file_.fail(byte, why); }

  void compare(Entry const& entry, std::uint32_t sum) const;
  /// Requires both kinds of checksums or none: a file that was written with them cannot lose one unnoticed.
  void take_sums(std::string header);

  void parse(std::string const& header);

  static Entry entry(json::Reader& in, std::string name);

  void check(std::uint64_t data_size);

  InputFile file_;
  std::uint64_t data_ = 0;
  Metadata metadata_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::optional<std::vector<std::uint32_t>> sums_ = std::nullopt;  ///< of the tensors, in their order
};

// Writes named tensors and texts as one safetensors file, durably.

/// Whether a file gets checksums of each tensor and of its header.
enum class Checksums : bool { none, written };

/// Adds metadata that depends on the names, types and shapes.
using AddMetadata = FunctionRef<void(Metadata&, std::vector<safetensors::Entry> const&)>;

/// Writes the weights durably: after this returns, or throws, `path` holds all of the new file or is unchanged.
/// `each(f)` must call f(std::string_view name, WeightView) for every tensor, in the same order each time; it is called
/// twice, so that only one tensor at a time need be in host memory:
///   write_safetensors("best.safetensors", {{"epoch", "3"}}, [&](auto&& f) { LibTorch::each_weight(model, f); });
void write_safetensors(std::filesystem::path const& path, Metadata metadata, EachWeight each,
                       Checksums checksums = Checksums::none, AddMetadata add = {});

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/safetensors.ipp>
#endif
