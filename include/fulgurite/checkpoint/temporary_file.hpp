#pragma once
// The temporary files that durable writes fill before they replace their targets, and how those of killed processes are
// removed.

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/file_lock.hpp>
#include <fulgurite/checkpoint/host_name.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::file {

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

}  // namespace fulgurite::file
