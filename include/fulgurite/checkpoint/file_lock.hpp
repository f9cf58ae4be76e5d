#pragma once
// Advisory locks on open files. The kernel ends a lock when the process that holds it ends, however it ends.

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::file {

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

}  // namespace fulgurite::file
