#pragma once
// Looks into an open file piece by piece, from its beginning to its end, without holding all of it.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::logger {

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

}  // namespace fulgurite::logger
