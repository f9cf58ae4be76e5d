#pragma once
// Symbolic links to files beside them.

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/temporary_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::file {

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
