#pragma once
// Reads safetensors files that may be damaged or malicious: every claim of the header is checked before a tensor is
// read.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/safetensors_layout.hpp>
#include <fulgurite/checkpoint/safetensors_sums.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>

namespace fulgurite {

/// A safetensors file, opened and checked: every claim of its header holds before a tensor is read, so `read` cannot
/// leave it. Only the header is kept in memory. Errors are [fulgurite.checkpoint.safetensors] with file and byte. Where
/// the file has checksums, its header and each tensor that is read have to be those that were written, else the Error
/// is [fulgurite.checkpoint.checksum].
class SafetensorsFile {
 public:
  using Entry = safetensors::Entry;

  explicit SafetensorsFile(std::filesystem::path path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (!descriptor_ || ::fstat(descriptor_.number(), &status) != 0) file::fail(identifier, "open", path_, errno);
    if (!S_ISREG(status.st_mode)) fail(0, "this is not a regular file");
    auto const size = static_cast<std::uint64_t>(status.st_size);
    if (size < 8) fail(size, "the file ends inside the eight bytes of the header's length");
    std::uint64_t length = 0;
    load(std::as_writable_bytes(std::span(&length, 1)), 0);
    if (length > safetensors::longest_header)
      fail(0, "a header of " + std::to_string(length) + " bytes: this is not a safetensors file");
    if (length > size - 8) fail(size, "the file ends inside its header of " + std::to_string(length) + " bytes");
    std::string header(length, '\0');
    load(std::as_writable_bytes(std::span(header)), 8);
    data_ = 8 + length;
    parse(header);
    check(size - data_);
    take_sums(std::move(header));
  }

  std::filesystem::path const& path() const { return path_; }
  Metadata const& metadata() const& { return metadata_; }
  /// The tensors, in the order of their bytes.
  std::vector<Entry> const& entries() const& { return entries_; }
  void metadata() && = delete;  // `for (auto& e : SafetensorsFile(path).entries())` would walk what is gone
  void entries() && = delete;
  /// The tensor of that name, or nullptr.
  Entry const* find(std::string_view name) const {
    auto const found = index_.find(name);
    return found == index_.end() ? nullptr : &entries_[found->second];
  }
  /// Reads a tensor's bytes into `into`, which has exactly the tensor's size.
  FULGURITE_COLD void read(Entry const& entry, std::span<std::byte> into) const {
    if (into.size() != entry.end - entry.begin)
      fail(data_ + entry.begin, "'" + entry.name + "' has " + std::to_string(entry.end - entry.begin) + " bytes, not " +
                                    std::to_string(into.size()));
    load(into, data_ + entry.begin);
    if (has_checksums()) compare(entry, crc32c(0, into));
  }
  /// Whether there is a checksum of each tensor and of the header.
  bool has_checksums() const { return sums_.has_value(); }
  /// Reads all tensors to compare their checksums.
  FULGURITE_COLD void verify() const {
    if (!has_checksums()) return;
    std::vector<std::byte> piece(std::size_t{1} << 20);
    for (auto const& entry : entries_) {
      std::uint32_t sum = 0;
      for (auto at = entry.begin; at != entry.end;) {
        auto const part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), entry.end - at));
        load(part, data_ + at);
        sum = crc32c(sum, part);
        at += part.size();
      }
      compare(entry, sum);
    }
  }

 private:
  static constexpr std::string_view identifier = "fulgurite.checkpoint.safetensors";

  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const {
    throw Error(identifier, path_.string() + ", byte " + std::to_string(byte) + ": " + why);
  }
  FULGURITE_COLD void load(std::span<std::byte> into, std::uint64_t offset) const {
    auto const count = file::read_at(descriptor_.number(), into, offset);
    if (count < 0) file::fail(identifier, "read", path_, errno);
    if (static_cast<std::size_t>(count) != into.size())
      fail(offset + static_cast<std::uint64_t>(count), "the file became shorter while it was read");
  }

  void compare(Entry const& entry, std::uint32_t sum) const {
    if ((*sums_)[index_.find(entry.name)->second] != sum)
      throw Error("fulgurite.checkpoint.checksum",
                  path_.string() + ": the bytes of '" + entry.name +
                      "' are not those that were written: the file is damaged, take another one");
  }
  /// Both checksums or none: a file that was written with them cannot lose one of them unnoticed.
  FULGURITE_COLD void take_sums(std::string header) {
    auto const of_header = metadata_.find(safetensors::header_sum_key);
    auto const of_tensors = metadata_.find(safetensors::tensor_sums_key);
    if (of_header == metadata_.end() && of_tensors == metadata_.end()) return;
    if (of_tensors != metadata_.end()) sums_ = safetensors::sums_in(of_tensors->second);
    if (of_header == metadata_.end() || !sums_ || sums_->size() != entries_.size() ||
        of_header->second != safetensors::sum_text(safetensors::header_sum(std::move(header))))
      throw Error("fulgurite.checkpoint.checksum",
                  path_.string() +
                      ": the header is not the one that was written: the file is damaged, take another one; "
                      "a program that changes a file leaves out the metadata that begin with 'fulgurite'");
  }

  FULGURITE_COLD void parse(std::string const& header) {
    if (!header.starts_with('{')) fail(8, "a header starts with '{'");
    json::Reader in(header, std::string(identifier), path_.string(), 8);
    bool described = false;
    in.object([&](std::string name) {
      if (name == "__metadata__") {
        if (std::exchange(described, true)) in.fail("'__metadata__' occurs twice");
        in.object([&](std::string key) {
          auto value = in.string();
          if (!metadata_.emplace(std::move(key), std::move(value)).second)
            in.fail("a name in '__metadata__' occurs twice");
        });
      } else {
        entries_.push_back(entry(in, std::move(name)));
        if (!index_.emplace(entries_.back().name, 0).second)
          in.fail("the tensor '" + entries_.back().name + "' occurs twice");
      }
    });
    in.expect_end();
  }

  FULGURITE_COLD static Entry entry(json::Reader& in, std::string name) {
    Entry entry{std::move(name), {}, {}, 0, 0};
    int seen = 0;
    auto const once = [&](int bit) {
      if ((seen & bit) != 0) in.fail("a member of '" + entry.name + "' occurs twice");
      seen |= bit;
    };
    in.object([&](std::string const& member) {
      if (member == "dtype") {
        once(1);
        entry.dtype = in.string();
        if (!safetensors::element_size(entry.dtype))
          in.fail("'" + entry.name + "' has an unknown element type '" + entry.dtype + "'");
      } else if (member == "shape") {
        once(2);
        in.array([&] {
          entry.shape.push_back(in.integer<std::int64_t>());
          if (entry.shape.back() < 0) in.fail("'" + entry.name + "' has a negative extent");
        });
      } else if (member == "data_offsets") {
        once(4);
        std::vector<std::uint64_t> offsets;
        in.array([&] { offsets.push_back(in.integer<std::uint64_t>()); });
        if (offsets.size() != 2) in.fail("'" + entry.name + "' needs two data_offsets");
        entry.begin = offsets[0];
        entry.end = offsets[1];
      } else {
        in.fail("'" + entry.name + "' has an unknown member '" + member + "'");
      }
    });
    if (seen != 7) in.fail("'" + entry.name + "' needs dtype, shape and data_offsets");
    auto const bytes = safetensors::bytes_of(entry.dtype, entry.shape);
    if (!bytes) in.fail("the shape of '" + entry.name + "' is too large for any memory");
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes)
      in.fail("'" + entry.name + "' should have " + std::to_string(*bytes) + " bytes, but its data_offsets are [" +
              std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]");
    return entry;
  }

  FULGURITE_COLD void check(std::uint64_t data_size) {
    sort_seldom(entries_,
                [](Entry const& a, Entry const& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t at = 0;
    for (std::size_t i = 0; i != entries_.size(); ++i) {
      if (entries_[i].begin != at)
        fail(data_ + at, "'" + entries_[i].name + "' starts at byte " + std::to_string(entries_[i].begin) +
                             " of the data, not at " + std::to_string(at) + ": tensors overlap, or leave a gap");
      if (entries_[i].end > data_size) fail(data_ + data_size, "the file ends inside '" + entries_[i].name + "'");
      at = entries_[i].end;
      index_.find(entries_[i].name)->second = i;
    }
    if (at != data_size) fail(data_ + at, std::to_string(data_size - at) + " bytes belong to no tensor");
  }

  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t data_ = 0;
  Metadata metadata_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::optional<std::vector<std::uint32_t>> sums_ = std::nullopt;  ///< of the tensors, in their order
};

}  // namespace fulgurite
