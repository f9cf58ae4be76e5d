#pragma once
// Names for runs that are shown together: what differs in their paths.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

/// A short name for each run, and what all their paths have in common, `runs/*/version_0`, where a star stands for the
/// name; empty where nothing is common.
struct RunNames {
  std::vector<std::string> names{};
  std::string common{};
};

namespace run_names {

using Parts = std::vector<std::string>;

FULGURITE_COLD Parts parts_of(std::filesystem::path const& path) {
  Parts parts;
  for (auto const& part : path.lexically_normal())
    if (!part.empty()) parts.push_back(part.string());
  return parts;
}
FULGURITE_COLD std::string joined(Parts const& parts) {
  std::filesystem::path path;
  for (auto const& part : parts) path /= part;
  return path.string();
}

}  // namespace run_names

/// A single path keeps its name as a whole.
FULGURITE_COLD RunNames names_of_runs(std::vector<std::filesystem::path> const& paths) {
  using namespace run_names;
  std::vector<Parts> all;
  for (auto const& path : paths) all.push_back(parts_of(path));
  Parts before, after;
  // One part stays of each.
  auto const longer = [&] { return std::ranges::all_of(all, [](Parts const& one) { return one.size() > 1; }); };
  if (all.size() > 1) {
    while (longer() && std::ranges::all_of(all, [&](Parts const& one) { return one.front() == all[0].front(); })) {
      before.push_back(all[0].front());
      for (auto& one : all) one.erase(one.begin());
    }
    while (longer() && std::ranges::all_of(all, [&](Parts const& one) { return one.back() == all[0].back(); })) {
      after.insert(after.begin(), all[0].back());
      for (auto& one : all) one.pop_back();
    }
  }
  RunNames made;
  for (auto const& one : all) made.names.push_back(joined(one));
  if (!after.empty()) {
    before.emplace_back("*");
    before.insert(before.end(), after.begin(), after.end());
  }
  made.common = joined(before);
  return made;
}

}  // namespace fulgurite::report
