#pragma once
// Replaces a file so that after a crash, a kill or a full disk there is the old one or the new one, never half of
// either.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

// An open file that is closed by its destructor, and the loops that POSIX reads and writes need.

/// Owns a POSIX file descriptor and closes it; -1 means none. It is never one of the standard streams, which a service
/// may have closed: what others print would go into the file.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number);
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  /// Closes the file. Returns 0 or errno, since some file systems report a full disk only here.
  int close();

 private:
  int number_ = -1;
};

namespace file {

/// Throws an Error that reads "cannot <deed> <path>: <errno in words> (errno N)<cure>".
[[noreturn]] void fail(std::string_view identifier, std::string_view deed, std::filesystem::path const& path, int error,
                       std::string_view cure = {});

/// Writes all of the bytes, despite short writes and interruptions. Returns 0 or errno; a write that takes nothing
/// counts as a full disk.
int write_all(std::span<std::byte const> bytes, auto&& write) {
  while (!bytes.empty()) {
    // Linux takes at most 2 GiB at once; a smaller piece also bounds how long a signal waits.
    auto const count = write(bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (count == 0) return ENOSPC;
    else if (errno != EINTR) return errno;
  }
  return 0;
}

/// Writes a text after the last write, or at the end of a file that is opened for appending. Returns 0 or errno.
int write_all(int descriptor, std::string_view text);

/// Reads from an offset until `into` is full or the file ends. Returns how many bytes there were, or -1 with errno set.
ssize_t read_at(int descriptor, std::span<std::byte> into, std::uint64_t offset);

// Advisory locks on open files. The kernel releases a lock when the process that holds it ends, however it ends.

/// The result of requesting a lock.
enum class Lock {
  held,    ///< by this descriptor, until it and all its copies are closed
  taken,   ///< by another descriptor, in this process or another
  unknown  ///< the file system has no locks, or the kernel refused
};

/// Requests the exclusive lock of an open file, without waiting for it.
Lock try_lock(int descriptor);

/// True if `path` still leads to the open file.
bool leads_to(std::filesystem::path const& path, int descriptor);

/// Makes a folder and its missing parents, each of them durably: a new folder survives a power cut only if its parent
/// was synchronised. Throws [fulgurite.file.write], with the path and the system's message.
void make_folders(std::filesystem::path const& folder);

/// The name of this machine; empty if the system does not provide it.
std::string host_name();

// The temporary files that durable writes fill before they replace their targets, and how those of killed processes are
// removed.

/// The prefix of the names of this machine's temporaries, ".fulgurite-HOST-". On a file system that several machines
/// share, a lock may be visible only to its own machine, so each machine removes only its own.
std::string temporary_prefix();

/// A name that no other process, thread or call uses: process, time and a count. It is short, since the target's own
/// name may already have the maximum length.
std::string temporary_name();

/// Removes temporaries of this machine whose process has ended. If the file system has no locks, that cannot be known,
/// and all files are kept.
void sweep_temporaries(std::filesystem::path const& folder);

// Renames a finished file, but never over another file: if two processes want one name, the system decides which of
// them gets it.

/// Three ways to move a file to a free name. Each returns 0 or errno, EEXIST if the name is taken, and nullopt if the
/// system or the file system does not support it.
namespace new_name {

/// True if an errno means that a way is not supported here.
bool unknown(int error);

std::optional<int> by_rename([[maybe_unused]] std::filesystem::path const& from,
                             [[maybe_unused]] std::filesystem::path const& to);

std::optional<int> by_link(std::filesystem::path const& from, std::filesystem::path const& to);

/// Last resort: another process may take the name between the check and the rename.
int by_look(std::filesystem::path const& from, std::filesystem::path const& to);

}  // namespace new_name

/// Moves a file to a free name, in one step, so that the name always leads to a complete file. Returns 0 or errno;
/// EEXIST if the name is taken. Only on a file system that has neither such a rename nor hard links is there a gap
/// between the check and the move.
int take_name(std::filesystem::path const& from, std::filesystem::path const& to);

// Symbolic links to files in the same folder.

/// Makes `link` a symbolic link to `file`, relative, so that their folder may be moved. It replaces an existing file of
/// that name in one step. Inside a NewNamesOnly it throws FileExists instead if the name is taken.
void link_to(std::filesystem::path const& file, std::filesystem::path const& link);

}  // namespace file

/// A file that is open for reading at any position. Its Errors have the identifier of its format, and name file and
/// byte.
class InputFile {
 public:
  /// `identifier` is not copied.
  InputFile(std::string_view identifier, std::filesystem::path path);

  std::filesystem::path const& path() const { return path_; }
  bool is_regular() const { return is_regular_; }
  std::uint64_t size() const { return size_; }
  [[noreturn]] void fail(std::uint64_t byte, std::string const& why) const;
  /// Fills `into` from an offset; a file that ends before it is full is an Error.
  void load(std::span<std::byte> into, std::uint64_t offset) const;
  std::string text(std::uint64_t offset, std::size_t size) const;

 private:
  std::string_view identifier_;
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  bool is_regular_ = false;
  std::uint64_t size_ = 0;
};

/// While an object of this class exists, files that this thread commits must be new: if a file of the same name exists,
/// FileExists is thrown and nothing is written. It is a scope and not an argument because the `save` of a backend
/// receives only a path.
class NewNamesOnly {
 public:
  explicit NewNamesOnly(bool on = true);
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
/// they are on disk and then renames it to the target's name in one step. Without `commit()`, or if anything fails, the
/// temporary is removed and the old file is unchanged. The temporary of a process that was killed is removed by the
/// next process that writes into the folder.
///   DurableFile out("runs/best.safetensors");  out.write(bytes);  out.commit();
/// Missing folders are made. Throws [fulgurite.file.write], with the path and the system's message.
class DurableFile : Pinned {
 public:
  explicit DurableFile(std::filesystem::path target);
  ~DurableFile() { discard(); }

  /// Appends bytes.
  void write(std::span<std::byte const> bytes);
  void write(std::string_view text);

  /// Writes bytes at an offset. A gap that no write fills reads as zeros.
  void write_at(std::uint64_t offset, std::span<std::byte const> bytes);

  /// Makes the new content durable and visible under the target's name. `on_disk` = false does not wait for the disk,
  /// for files that can be made again if a power cut loses them.
  void commit(bool on_disk = true);

 private:
  void check(int error);
  [[noreturn]] void fail(int error) const;
  void discard() noexcept;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileDescriptor descriptor_;
};

/// Replaces a file by this content, durably.
void write_durably(std::filesystem::path const& target, std::string_view content);

/// Replaces a file that can be made again: readers never see half of it, but it does not wait for the disk.
void write_whole(std::filesystem::path const& target, std::string_view content);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/durable_file.ipp>
#endif
