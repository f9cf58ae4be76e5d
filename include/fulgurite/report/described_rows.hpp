#pragma once
// What describe.txt says, in pairs of a name and a text, so that two programs can be compared.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

/// Lines of a name, blanks and a text, as system.txt has them.
FULGURITE_COLD std::vector<std::pair<std::string, std::string>> two_columns(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> rows;
  while (!text.empty()) {
    auto const line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto const gap = std::min(line.find("  "), line.size());
    rows.emplace_back(line.substr(0, gap), line.substr(std::min(line.find_first_not_of(' ', gap), line.size())));
  }
  return rows;
}

/// "precision" and "Float32", "fit: backward" and who hears it, "off: predict" and why; what stands below callbacks is
/// a list of their names. The part about options is left out: options.txt has them all.
FULGURITE_COLD std::vector<std::pair<std::string, std::string>> described_rows(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> rows;
  auto const add = [&](std::string const& name, std::string_view value) {
    auto const known = std::ranges::find(rows, name, &std::pair<std::string, std::string>::first);
    if (known == rows.end()) rows.emplace_back(name, value);
    else (known->second += ", ") += value;
  };
  constexpr std::string_view first = "Trainer of ", callbacks = "callbacks";
  constexpr std::size_t column = 34;  // of who hears a hook; a long name has one blank before it
  std::string part;
  bool listed = false;
  while (!text.empty()) {
    auto const line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto const indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) continue;
    if (indent == 0) {
      listed = false;
      part = line.starts_with(first) ? "" : std::string(line) + ": ";
      if (part.empty()) add("model", line.substr(first.size()));
      continue;
    }
    bool const long_name = line.size() > column && line[column - 1] == ' ' && line[column] != ' ';
    auto const gap = std::min({line.find("  ", indent), line.size(), long_name ? column - 1 : line.size()});
    auto const name = line.substr(indent, gap - indent);
    auto const value = line.substr(std::min(line.find_first_not_of(' ', gap), line.size()));
    listed = part.empty() && (name.starts_with(callbacks) || (listed && indent > 2));
    if (part == "options: ") continue;
    if (listed && indent > 2) add(std::string(callbacks), value.substr(0, value.find("  ")));
    else if (listed) continue;
    else if (!value.empty()) add(part + std::string(name), value);
    else if (!part.empty()) add(part.substr(0, part.size() - 2), name);
  }
  return rows;
}

}  // namespace fulgurite::report
