#pragma once
// Replaces a file so that after a crash, a kill or a full disk there is the old one or the new one, never half of
// either.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

// An open file that is closed when its owner leaves, and the loops that POSIX reads and writes need.

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

namespace fulgurite::file {

// Advisory locks on open files. The kernel ends a lock when the process that holds it ends, however it ends.

/// What became of asking for a lock.
enum class Lock {
  held,    ///< by this descriptor, until it and all its copies are closed
  taken,   ///< somebody else holds it, in this process or another
  unknown  ///< the file system has no locks, or the kernel refused
};

/// Asks for the one lock of an open file, and does not wait for it.
FULGURITE_COLD Lock try_lock(int descriptor) {
  int result = 0;
  do result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0 ? Lock::held : errno == EWOULDBLOCK ? Lock::taken : Lock::unknown;
}

/// Whether `path` still leads to the open file.
FULGURITE_COLD bool leads_to(std::filesystem::path const& path, int descriptor) {
  struct stat there{};
  struct stat here{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &here) == 0 && there.st_dev == here.st_dev &&
         there.st_ino == here.st_ino;
}

/// Makes a folder and those around it that are missing, each of them durably: a new folder survives a power cut only
/// when the folder around it was synchronised. Errors are [fulgurite.file.write], with the path and the system's words.
FULGURITE_COLD void make_folders(std::filesystem::path const& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return;
  auto const around = folder_of(folder);
  if (around != folder) make_folders(around);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    int const why = errno;
    if (why != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, why);
    if (!std::filesystem::is_directory(folder, error))
      file::fail("fulgurite.file.write", "make the folder", folder, ENOTDIR);
  }
  if (int const failed = sync_folder(around); failed != 0 && failed != EACCES)
    file::fail("fulgurite.file.write", "make durable", folder, failed);
}

/// The name of this machine; empty where the system does not tell it.
inline std::string host_name() {
  char host[HOST_NAME_MAX + 1] = {};
  return ::gethostname(host, sizeof host - 1) == 0 ? host : "";
}

// The temporary files that durable writes fill before they replace their targets, and how those of killed processes are
// removed.

/// The beginning of the names of this machine's temporaries, ".fulgurite-HOST-". On a file system that several machines
/// share, a lock may be visible to its own machine alone, so each machine removes only its own.
inline std::string temporary_prefix() {
  auto name = host_name();
  for (char& c : name)
    if (c == '/') c = '_';
  return ".fulgurite-" + name + "-";
}

/// A name that no other process, thread or call uses: process, time and a count. It is short, since the target's own
/// name may already be as long as a name can be.
inline std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return temporary_prefix() + std::to_string(::getpid()) + "-" +
         std::to_string(std::chrono::system_clock::now().time_since_epoch().count()) + "-" + std::to_string(counter++) +
         ".tmp";
}

/// Makes an empty temporary in `folder`, and locks it for as long as the descriptor is open. Returns -1 with errno set
/// where none can be made.
FULGURITE_COLD std::pair<FileDescriptor, std::filesystem::path> open_temporary(std::filesystem::path const& folder) {
  while (true) {
    auto path = folder / temporary_name();
    FileDescriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!made && errno == EEXIST) continue;
    // Between these two calls another process may have taken the file for an abandoned one and removed it.
    if (!made || (try_lock(made.number()) != Lock::taken && leads_to(path, made.number())))
      return {std::move(made), std::move(path)};
  }
}

/// Whether the process that a temporary's name tells of is gone, for a link, which cannot be locked.
FULGURITE_COLD bool made_by_the_dead(std::string_view name, std::string_view prefix) {
  name.remove_prefix(prefix.size());
  pid_t process = 0;
  auto const read = std::from_chars(name.data(), name.data() + name.size(), process);
  return read.ec == std::errc() && read.ptr != name.data() + name.size() && *read.ptr == '-' && process > 0 &&
         ::kill(process, 0) != 0 && errno == ESRCH;
}

/// Removes temporaries of this machine whose process is gone. Where the file system has no locks that cannot be known,
/// and all files stay.
FULGURITE_COLD void sweep_temporaries(std::filesystem::path const& folder) {
  auto const prefix = temporary_prefix();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().native();
    if (!name.starts_with(prefix) || !name.ends_with(".tmp")) continue;
    FileDescriptor const left(::open(entry->path().c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status{};
    if (!left && errno == ELOOP && made_by_the_dead(name, prefix)) ::unlink(entry->path().c_str());
    if (!left || ::fstat(left.number(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (try_lock(left.number()) == Lock::held) ::unlink(entry->path().c_str());
  }
}

/// Does the same, but only the first time that this process writes into `folder`.
inline void sweep_temporaries_once(std::filesystem::path const& folder) {
  static std::mutex mutex;
  static std::set<std::filesystem::path> swept;
  std::error_code error;
  auto const absolute = std::filesystem::absolute(folder, error);
  {
    std::lock_guard const lock(mutex);
    if (error || !swept.insert(absolute).second) return;
  }
  sweep_temporaries(folder);
}

// Renames a finished file, but never over another file: where two processes want one name, the system decides who gets
// it.

/// Three ways to move a file to a name that is free. Each returns 0 or errno, EEXIST where the name is taken, and
/// nullopt where the system or the file system does not know that way.
namespace new_name {

/// Whether an errno says that a way is not known here.
inline bool unknown(int error) {
  return error == ENOSYS || error == EINVAL || error == ENOTSUP || error == EOPNOTSUPP || error == EPERM;
}

FULGURITE_COLD std::optional<int> by_rename([[maybe_unused]] std::filesystem::path const& from,
                                            [[maybe_unused]] std::filesystem::path const& to) {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (!unknown(errno)) return errno;
#endif
  return std::nullopt;
}

FULGURITE_COLD std::optional<int> by_link(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return 0;
  }
  return unknown(errno) ? std::nullopt : std::optional(errno);
}

/// Last resort: another process may take the name between the look and the rename.
FULGURITE_COLD int by_look(std::filesystem::path const& from, std::filesystem::path const& to) {
  struct stat there{};
  if (::lstat(to.c_str(), &there) == 0) return EEXIST;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace new_name

/// Moves a file to a name that is free, in one step, so that whoever sees the name sees a whole file. Returns 0 or
/// errno; EEXIST where the name is taken. Only a file system that has neither such a rename nor hard links leaves a
/// moment between the look and the move.
FULGURITE_COLD int take_name(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (auto const renamed = new_name::by_rename(from, to)) return *renamed;
  if (auto const linked = new_name::by_link(from, to)) return *linked;
  return new_name::by_look(from, to);
}

}  // namespace fulgurite::file

namespace fulgurite {

/// While an object of this class lives, files that this thread commits are new: where a file of the same name exists,
/// FileExists is thrown and nothing is written. It is a scope and not an argument because the `save` of a backend gets
/// a path alone.
class NewNamesOnly {
 public:
  explicit NewNamesOnly(bool on = true) : before_(std::exchange(now(), on)) {}
  NewNamesOnly(NewNamesOnly const&) = delete;
  ~NewNamesOnly() { now() = before_; }
  static bool& now() {
    static thread_local bool on = false;
    return on;
  }

 private:
  bool before_;
};

/// A file that is replaced as a whole. Bytes are written to a temporary file in the same folder; `commit()` waits until
/// they are on the disk and then renames it to the target's name in one step. Without `commit()`, or when anything
/// fails, the temporary is removed and the old file stays as it was. The temporary of a process that was killed is
/// removed by the next process that writes into the folder.
///   DurableFile out("runs/best.safetensors");  out.write(bytes);  out.commit();
/// Folders that are missing are made. Errors are [fulgurite.file.write], with the path and the system's words.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path target) : target_(std::move(target)) {
    auto const folder = file::folder_of(target_);
    file::make_folders(folder);
    file::sweep_temporaries_once(folder);
    auto [descriptor, path] = file::open_temporary(folder);
    if (!descriptor) fail(errno);
    descriptor_ = std::move(descriptor);
    temporary_ = std::move(path);
  }
  DurableFile(DurableFile const&) = delete;
  DurableFile& operator=(DurableFile const&) = delete;
  ~DurableFile() { discard(); }

  /// Appends bytes.
  void write(std::span<std::byte const> bytes) {
    check(file::write_all(bytes,
                          [&](void const* from, std::size_t n) { return ::write(descriptor_.number(), from, n); }));
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Writes bytes at an offset. A gap that no write fills reads as zeros.
  FULGURITE_COLD void write_at(std::uint64_t offset, std::span<std::byte const> bytes) {
    check(file::write_all(bytes, [&](void const* from, std::size_t n) {
      auto const count = ::pwrite(descriptor_.number(), from, n, static_cast<off_t>(offset));
      if (count > 0) offset += static_cast<std::uint64_t>(count);
      return count;
    }));
  }

  /// Makes the new content durable and visible under the name of the target. `on_disk` = false waits for no disk: what
  /// can be made again may be lost in a power cut.
  FULGURITE_COLD void commit(bool on_disk = true) {
    if (on_disk) check(::fsync(descriptor_.number()) == 0 ? 0 : errno);
    // Some systems report a full disk only when the file is closed, but closing would release the lock on a temporary
    // that is not renamed yet. A second descriptor keeps the lock.
    FileDescriptor const lock(::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0));
    check(lock ? descriptor_.close() : errno);
    if (NewNamesOnly::now()) {
      int const error = file::take_name(temporary_, target_);
      if (error == EEXIST) throw FileExists(target_);
      check(error);
    } else {
      check(::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0 : errno);
    }
    temporary_.clear();
    if (!on_disk) return;
    if (int const error = file::sync_folder(file::folder_of(target_)); error != 0)
      file::fail("fulgurite.file.write", "make durable", target_, error,
                 ": the new content is there, but may not survive a power cut");
  }

 private:
  void check(int error) {
    if (error == 0) return;
    discard();
    fail(error);
  }
  [[noreturn]] void fail(int error) const {
    std::error_code ignored;
    file::fail("fulgurite.file.write", "write", target_, error,
               std::filesystem::exists(target_, ignored) ? "; the old file stays as it was"
                                                         : "; nothing was left behind");
  }
  void discard() noexcept {
    descriptor_ = FileDescriptor();
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileDescriptor descriptor_;
};

/// Replaces a file by this content, durably.
inline void write_durably(std::filesystem::path const& target, std::string_view content) {
  DurableFile file(target);
  file.write(content);
  file.commit();
}

/// The same for what can be made again: readers never see half of it, and no disk is waited for.
inline void write_whole(std::filesystem::path const& target, std::string_view content) {
  DurableFile file(target);
  file.write(content);
  file.commit(false);
}

}  // namespace fulgurite

namespace fulgurite::file {

// Symbolic links to files beside them.

/// Makes `link` a symbolic link to `file`, relative, so that their folder may be moved. It replaces what has that name
/// in one step. Inside a NewNamesOnly it throws FileExists instead where the name is taken.
FULGURITE_COLD void link_to(std::filesystem::path const& file, std::filesystem::path const& link) {
  auto const refuse = [&](std::string const& why) {
    throw Error("fulgurite.file.write", "cannot make " + link.string() + " a link to " + file.string() + ": " + why +
                                            "; where there are no links, save a copy instead");
  };
  auto const around = std::filesystem::absolute(link).parent_path();
  if (std::filesystem::absolute(file).lexically_normal() == std::filesystem::absolute(link).lexically_normal())
    refuse("a file that leads to itself holds nothing");
  auto const target = std::filesystem::absolute(file).lexically_relative(around);
  std::error_code error;
  if (NewNamesOnly::now()) {
    std::filesystem::create_symlink(target, link, error);
    if (error == std::errc::file_exists) throw FileExists(link);
  } else {
    auto const fresh = around / temporary_name();
    std::filesystem::create_symlink(target, fresh, error);
    if (!error) {
      std::filesystem::rename(fresh, link, error);
      std::error_code ignored;
      if (error) std::filesystem::remove(fresh, ignored);
    }
  }
  if (error) refuse(error.message());
}

}  // namespace fulgurite::file
