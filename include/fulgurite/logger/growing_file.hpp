#pragma once
// A file that grows at its end, of which its writer knows at each time what it holds.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::logger {

/// Each piece is handed to the kernel by one write(2) before `append` returns: a process that is killed loses none, a
/// power cut may lose those that are not on the disk yet. A file that was deleted or moved away meanwhile is written
/// anew with all that it had. One that somebody else has written to or replaced is left alone, and `require_ours`
/// throws [fulgurite.logger.table_changed].
class GrowingFile {
 public:
  /// Opens the file, where there is one.
  explicit GrowingFile(std::filesystem::path path) : path_(std::move(path)) { open(); }

  bool is_there() const { return static_cast<bool>(descriptor_); }
  int number() const { return descriptor_.number(); }
  std::uint64_t size() const { return size_; }
  std::filesystem::path const& path() const { return path_; }

  /// Opens what is at the path now; false where there is nothing. A file that exists and cannot be read must not be
  /// mistaken for a new one.
  FULGURITE_COLD bool open() {
    FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC));
    if (!opened && errno == ENOENT) return false;
    constexpr std::string_view cure = "; rows are to be added to it: move it away, or log into another folder";
    struct stat status{};
    if (!opened || ::fstat(opened.number(), &status) != 0)
      file::fail("fulgurite.file.read", "read", path_, errno, cure);
    if (!S_ISREG(status.st_mode))
      throw Error("fulgurite.file.read",
                  "cannot read " + path_.string() + ": this is not a regular file" + std::string(cure));
    descriptor_ = std::move(opened);
    size_ = static_cast<std::uint64_t>(status.st_size);
    return true;
  }

  /// Makes sure that the file at the path is the one with what was written so far, and that nobody else has written to
  /// it. Where it is gone, it is made again.
  FULGURITE_COLD void require_ours() {
    struct stat here{};
    struct stat there{};
    bool const is_there = ::stat(path_.c_str(), &there) == 0;
    if (!is_there && errno != ENOENT && errno != ENOTDIR)
      file::fail("fulgurite.file.write", "append a row to", path_, errno);
    if (!descriptor_ && !is_there) return;
    bool const ours = descriptor_ && ::fstat(descriptor_.number(), &here) == 0 &&
                      static_cast<std::uint64_t>(here.st_size) == size_ &&
                      (!is_there || (here.st_dev == there.st_dev && here.st_ino == there.st_ino));
    if (!ours)
      throw Error(
          "fulgurite.logger.table_changed",
          path_.string() +
              " was written to or replaced by somebody else while rows were added to it, and is left alone: give "
              "each run a version of its own, and edit copies");
    if (is_there) return;
    DurableFile out(path_);
    std::array<std::byte, 65536> block;
    for (std::uint64_t at = 0; at < size_; at += block.size()) {
      auto const part =
          std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size_ - at)));
      if (file::read_at(descriptor_.number(), part, at) != static_cast<ssize_t>(part.size()))
        file::fail("fulgurite.file.read", "read the rows of", path_, errno);
      out.write(part);
    }
    out.commit();
    open();
  }

  /// Adds a piece at the end. The first one makes the file, durably.
  FULGURITE_COLD void append(std::string_view piece) {
    if (!descriptor_) {
      write_durably(path_, piece);
      open();
      return;
    }
    int const error = file::write_all(descriptor_.number(), piece);
    if (error == 0) {
      size_ += piece.size();
      return;
    }
    // Half a row would be glued to the next one; if even this fails there is nothing left to do.
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(size_)) != 0) errno = 0;
    file::fail("fulgurite.file.write", "append a row to", path_, error);
  }

  /// Cuts off what follows the first `size` bytes. A reader that has the file open sees it shrink.
  FULGURITE_COLD void cut(std::uint64_t size) {
    if (size >= size_) return;
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(size)) != 0)
      file::fail("fulgurite.file.write", "drop rows of", path_, errno);
    size_ = size;
    sync();
  }

  /// Waits until all of it is on the disk: a file that tells of it may be written then.
  FULGURITE_COLD void sync() const {
    if (descriptor_ && ::fdatasync(descriptor_.number()) != 0)
      file::fail("fulgurite.file.write", "make durable the rows of", path_, errno);
  }

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;  ///< when it was last written to by this object
};

}  // namespace fulgurite::logger
