#pragma once
// Renames a finished file, but never over another file: where two processes want one name, the system decides who gets
// it.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::file {

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
