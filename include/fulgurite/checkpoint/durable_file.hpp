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
#include <utility>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

// An open file that is closed when its owner leaves, and the loops that POSIX reads and writes need.

/// Owns a POSIX file descriptor and closes it; -1 means none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
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
int write_all(int descriptor, std::string_view text);

/// Reads from an offset until `into` is full or the file ends. Returns how many bytes there were, or -1 with errno set.
ssize_t read_at(int descriptor, std::span<std::byte> into, std::uint64_t offset);

/// Makes the entries of a folder durable. Returns 0 or errno. EINVAL is no failure: the file system of the folder does
/// not know how to synchronise folders.
int sync_folder(std::filesystem::path const& folder);

/// The folder a file lies in; "." for a bare name.
std::filesystem::path folder_of(std::filesystem::path const& file);

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
Lock try_lock(int descriptor);

/// Whether `path` still leads to the open file.
bool leads_to(std::filesystem::path const& path, int descriptor);

/// Makes a folder and those around it that are missing, each of them durably: a new folder survives a power cut only
/// when the folder around it was synchronised. Errors are [fulgurite.file.write], with the path and the system's words.
void make_folders(std::filesystem::path const& folder);

/// The name of this machine; empty where the system does not tell it.
std::string host_name();

// The temporary files that durable writes fill before they replace their targets, and how those of killed processes are
// removed.

/// The beginning of the names of this machine's temporaries, ".fulgurite-HOST-". On a file system that several machines
/// share, a lock may be visible to its own machine alone, so each machine removes only its own.
std::string temporary_prefix();

/// A name that no other process, thread or call uses: process, time and a count. It is short, since the target's own
/// name may already be as long as a name can be.
std::string temporary_name();

/// Makes an empty temporary in `folder`, and locks it for as long as the descriptor is open. Returns -1 with errno set
/// where none can be made.
std::pair<FileDescriptor, std::filesystem::path> open_temporary(std::filesystem::path const& folder);

/// Whether the process that a temporary's name tells of is gone, for a link, which cannot be locked.
bool made_by_the_dead(std::string_view name, std::string_view prefix);

/// Removes temporaries of this machine whose process is gone. Where the file system has no locks that cannot be known,
/// and all files stay.
void sweep_temporaries(std::filesystem::path const& folder);

/// Does the same, but only the first time that this process writes into `folder`.
void sweep_temporaries_once(std::filesystem::path const& folder);

// Renames a finished file, but never over another file: where two processes want one name, the system decides who gets
// it.

/// Three ways to move a file to a name that is free. Each returns 0 or errno, EEXIST where the name is taken, and
/// nullopt where the system or the file system does not know that way.
namespace new_name {

/// Whether an errno says that a way is not known here.
bool unknown(int error);

std::optional<int> by_rename([[maybe_unused]] std::filesystem::path const& from,
                             [[maybe_unused]] std::filesystem::path const& to);

std::optional<int> by_link(std::filesystem::path const& from, std::filesystem::path const& to);

/// Last resort: another process may take the name between the look and the rename.
int by_look(std::filesystem::path const& from, std::filesystem::path const& to);

}  // namespace new_name

/// Moves a file to a name that is free, in one step, so that whoever sees the name sees a whole file. Returns 0 or
/// errno; EEXIST where the name is taken. Only a file system that has neither such a rename nor hard links leaves a
/// moment between the look and the move.
int take_name(std::filesystem::path const& from, std::filesystem::path const& to);

}  // namespace fulgurite::file

namespace fulgurite {

/// While an object of this class lives, files that this thread commits are new: where a file of the same name exists,
/// FileExists is thrown and nothing is written. It is a scope and not an argument because the `save` of a backend gets
/// a path alone.
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
/// they are on the disk and then renames it to the target's name in one step. Without `commit()`, or when anything
/// fails, the temporary is removed and the old file stays as it was. The temporary of a process that was killed is
/// removed by the next process that writes into the folder.
///   DurableFile out("runs/best.safetensors");  out.write(bytes);  out.commit();
/// Folders that are missing are made. Errors are [fulgurite.file.write], with the path and the system's words.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path target);
  DurableFile(DurableFile const&) = delete;
  DurableFile& operator=(DurableFile const&) = delete;
  ~DurableFile() { discard(); }

  /// Appends bytes.
  void write(std::span<std::byte const> bytes);
  void write(std::string_view text);

  /// Writes bytes at an offset. A gap that no write fills reads as zeros.
  void write_at(std::uint64_t offset, std::span<std::byte const> bytes);

  /// Makes the new content durable and visible under the name of the target. `on_disk` = false waits for no disk: what
  /// can be made again may be lost in a power cut.
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

/// The same for what can be made again: readers never see half of it, and no disk is waited for.
void write_whole(std::filesystem::path const& target, std::string_view content);

}  // namespace fulgurite

namespace fulgurite::file {

// Symbolic links to files beside them.

/// Makes `link` a symbolic link to `file`, relative, so that their folder may be moved. It replaces what has that name
/// in one step. Inside a NewNamesOnly it throws FileExists instead where the name is taken.
void link_to(std::filesystem::path const& file, std::filesystem::path const& link);

}  // namespace fulgurite::file

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/durable_file.ipp>
#endif
