#pragma once
// Replaces a file so that after a crash, a kill or a full disk there is the old one or the new one, never half of
// either.

#include <cstdint>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/folders.hpp>
#include <fulgurite/checkpoint/new_name.hpp>
#include <fulgurite/checkpoint/temporary_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/file_exists.hpp>

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
