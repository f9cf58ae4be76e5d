#pragma once
// The bodies of callback/watch.hpp.

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>

namespace fulgurite::run_output {

FULGURITE_BODY std::filesystem::path folder(Context const& ctx, std::filesystem::path const& dirpath) {
  auto folder = dirpath.empty() ? ctx.log_dir() : dirpath;
  if (folder.empty()) folder = ctx.options().default_root_dir.path();
  if (!folder.empty()) file::make_folders(folder);
  return folder;
}

}  // namespace fulgurite::run_output
