#pragma once
// The bytes of an archive, read from its file at any place.

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

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

}  // namespace fulgurite
