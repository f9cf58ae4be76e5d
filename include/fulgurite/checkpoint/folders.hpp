#pragma once
// Makes folders that survive a power cut.

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::file {

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

}  // namespace fulgurite::file
