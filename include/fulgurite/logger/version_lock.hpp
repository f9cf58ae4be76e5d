#pragma once
// One writer for a version's folder, however many processes were given the same number.

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/file_lock.hpp>
#include <fulgurite/checkpoint/host_name.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::logger {

/// Keeps other loggers away from a folder while it exists: they get the Error [fulgurite.logger.version_in_use], in
/// this process or another. The lock is a file, `.lock` or what each kind of logger calls its own, and has the name of
/// its owner. The kernel ends it with its process, so a run that is killed does not block its folder. On a file system
/// without locks it has no effect.
class VersionLock {
 public:
  explicit VersionLock(std::filesystem::path const& folder, std::string_view name = ".lock") : path_(folder / name) {
    while (!descriptor_) {
      FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
      if (!opened) file::fail("fulgurite.file.write", "lock", path_, errno);
      if (file::try_lock(opened.number()) == file::Lock::taken)
        throw Error("fulgurite.logger.version_in_use",
                    "another logger writes into " + folder.string() + " now (" + owner(opened.number()) +
                        "): give this one another version, or none, so that it gets one of its own");
      // The owner before may have removed the file between the two calls.
      if (file::leads_to(path_, opened.number())) descriptor_ = std::move(opened);
    }
    // The text is for people to read. The lock is the kernel's, so it does not matter whether the text can be written.
    if (::ftruncate(descriptor_.number(), 0) == 0)
      file::write_all(descriptor_.number(), "process " + std::to_string(::getpid()) + " on " + file::host_name());
  }
  VersionLock(VersionLock&&) = default;
  VersionLock& operator=(VersionLock&&) = default;
  ~VersionLock() {
    if (holds()) ::unlink(path_.c_str());
  }

  /// Whether the lock is still held. It is not where the folder was deleted meanwhile: somebody else may hold one of
  /// that name.
  bool holds() const { return descriptor_ && file::leads_to(path_, descriptor_.number()); }

 private:
  FULGURITE_COLD static std::string owner(int descriptor) {
    std::string text(256, '\0');
    auto const count = file::read_at(descriptor, std::as_writable_bytes(std::span(text)), 0);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text.empty() ? "it has just begun" : text;
  }

  std::filesystem::path path_;
  FileDescriptor descriptor_;
};

}  // namespace fulgurite::logger
