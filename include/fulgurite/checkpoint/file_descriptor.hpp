#pragma once
// An open file that is closed when its owner leaves, and the loops that POSIX reads and writes need.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// Owns a POSIX file descriptor and closes it; -1 means none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  /// Closes the file. Returns 0 or errno, since some file systems report a full disk only here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno; }

 private:
  int number_ = -1;
};

namespace file {

/// Throws an Error that reads "cannot <deed> <path>: <errno in words> (errno N)<cure>".
[[noreturn]] FULGURITE_COLD void fail(std::string_view identifier, std::string_view deed,
                                      std::filesystem::path const& path, int error, std::string_view cure = {}) {
  throw Error(identifier, "cannot " + std::string(deed) + " " + path.string() + ": " + std::strerror(error) +
                              " (errno " + std::to_string(error) + ")" + std::string(cure));
}

/// Writes all of the bytes, over short writes and interruptions. Returns 0 or errno; a write that takes nothing counts
/// as a full disk.
template <class Write>
int write_all(std::span<std::byte const> bytes, Write&& write) {
  while (!bytes.empty()) {
    // Linux takes at most 2 GiB at once; a smaller piece also bounds how long a signal waits.
    auto const count = write(bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (count == 0) return ENOSPC;
    else if (errno != EINTR) return errno;
  }
  return 0;
}

/// Writes a text where the last write ended, or at the end of a file that is appended to. Returns 0 or errno.
inline int write_all(int descriptor, std::string_view text) {
  return write_all(std::as_bytes(std::span(text)),
                   [&](void const* from, std::size_t n) { return ::write(descriptor, from, n); });
}

/// Reads from an offset until `into` is full or the file ends. Returns how many bytes there were, or -1 with errno set.
FULGURITE_COLD ssize_t read_at(int descriptor, std::span<std::byte> into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done != into.size()) {
    auto const count =
        ::pread(descriptor, into.data() + done, std::min<std::size_t>(into.size() - done, std::size_t{1} << 30),
                static_cast<off_t>(offset + done));
    if (count == 0) break;
    if (count > 0) done += static_cast<std::size_t>(count);
    else if (errno != EINTR) return -1;
  }
  return static_cast<ssize_t>(done);
}

/// Makes the entries of a folder durable. Returns 0 or errno. EINVAL is no failure: the file system of the folder does
/// not know how to synchronise folders.
FULGURITE_COLD int sync_folder(std::filesystem::path const& folder) {
  FileDescriptor const opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno;
  return ::fsync(opened.number()) == 0 || errno == EINVAL ? 0 : errno;
}

/// The folder a file lies in; "." for a bare name.
inline std::filesystem::path folder_of(std::filesystem::path const& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace file
}  // namespace fulgurite
