#pragma once
// Replaces a file so that after a crash, a kill or a full disk there is the old one or the new one, never half of either.

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <system_error>

#include <fulgurite/checkpoint/file_descriptor.hpp>

namespace fulgurite {

/// Write, then `commit()`. Bytes go to a temporary file in the same folder, which replaces the target in one step after it is
/// on the disk; without `commit`, or when anything fails, the temporary is removed and the old file stays as it was.
///   DurableFile out("runs/best.safetensors");  out.write(bytes);  out.commit();
/// Missing folders are made. Errors are [fulgurite.file.write] with the path and the system's words.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path target) : target_(std::move(target)) {
    auto const folder = file::folder_of(target_);
    make_folders(folder);
    static std::atomic<unsigned> counter{0};
    do {
      // Short on purpose: the target's own name may already be as long as a name can be.
      temporary_ = folder / (".fulgurite-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp");
      descriptor_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    } while (!descriptor_ && errno == EEXIST);
    if (!descriptor_) {
      int const error = errno;
      temporary_.clear();
      fail(error);
    }
  }
  DurableFile(DurableFile const&) = delete;
  DurableFile& operator=(DurableFile const&) = delete;
  ~DurableFile() { discard(); }

  /// Appends.
  void write(std::span<std::byte const> bytes) {
    check(file::write_all(bytes, [&](void const* from, std::size_t n) { return ::write(descriptor_.number(), from, n); }));
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Writes at an offset; what lies between is zero until it is written.
  void write_at(std::uint64_t offset, std::span<std::byte const> bytes) {
    check(file::write_all(bytes, [&](void const* from, std::size_t n) {
      auto const count = ::pwrite(descriptor_.number(), from, n, static_cast<off_t>(offset));
      if (count > 0) offset += static_cast<std::uint64_t>(count);
      return count;
    }));
  }

  /// Makes the new content durable and visible under the target's name.
  void commit() {
    check(::fsync(descriptor_.number()) == 0 ? 0 : errno);
    check(descriptor_.close());
    check(::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0 : errno);
    temporary_.clear();
    if (int const error = file::sync_folder(file::folder_of(target_)); error != 0)
      file::fail("fulgurite.file.write", "make durable", target_, error, ": the new content is there, but may not survive a power cut");
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
               std::filesystem::exists(target_, ignored) ? "; the old file stays as it was" : "; nothing was left behind");
  }
  void discard() noexcept {
    descriptor_ = FileDescriptor();
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }

  // A new folder is durable only when the folder around it is.
  void make_folders(std::filesystem::path const& folder) const {
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) return;
    auto const around = file::folder_of(folder);
    if (around != folder) make_folders(around);
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, errno);
    if (int const failed = file::sync_folder(around); failed != 0 && failed != EACCES)
      file::fail("fulgurite.file.write", "make durable", folder, failed);
  }

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileDescriptor descriptor_;
};

/// The whole content at once.
inline void write_durably(std::filesystem::path const& target, std::string_view content) {
  DurableFile file(target);
  file.write(content);
  file.commit();
}

}  // namespace fulgurite
