#pragma once
// What --help prints, at most 80 columns wide.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/cli/table.hpp>

namespace fulgurite::cli {

/// Two columns: what to write, and what it means, broken between words. What does not fit into the first one stands in
/// a line of its own.
inline std::string help_line(std::string const& left, std::string_view about) {
  constexpr std::size_t column = 36, width = 80;
  std::string text = "  " + left, line;
  auto const indent = [&] { text += std::string(column - std::min(column, text.size() - text.rfind('\n') - 1), ' '); };
  if (about.empty()) return text + '\n';
  if (text.size() + 2 > column) text += '\n';
  bool first = true;
  while (!about.empty() || !line.empty()) {
    auto const end = std::min(about.find(' '), about.size());
    auto const word = about.substr(0, end);
    if (!line.empty() && (about.empty() || column + line.size() + 1 + word.size() > width)) {
      if (!std::exchange(first, false)) text += '\n';
      indent();
      text += std::exchange(line, {});
      continue;
    }
    ((line += line.empty() ? "" : " ") += word);
    about.remove_prefix(std::min(end + 1, about.size()));
  }
  return text + '\n';
}

/// The whole page. `verbs`: each with what it does.
inline std::string help_page(std::string const& program, std::vector<std::pair<std::string, std::string>> const& verbs,
                             Table const& table) {
  std::string text = "Usage: " + program + " VERB [OPTIONS]\n\nVerbs\n";
  for (auto const& [verb, about] : verbs) text += help_line(verb, about);
  text += "\nOptions\n";
  text += help_line("-h, --help", "this page");
  text += help_line("-c, --config FILE", "values from a TOML file; several: the last one wins");
  text += help_line("--print_config", "print all options as such a file, and end");
  std::string group;
  for (auto const& entry : table.entries()) {
    auto const of = entry.name.substr(0, entry.name.find('.'));
    if (entry.name.find('.') != std::string::npos && of != group) {
      text += "\n--" + of + ".*\n";
      group = of;
    }
    std::string about = entry.about;
    if (!entry.usual.empty()) {
      if (!about.empty()) about += ' ';
      about += "[" + entry.usual + "]";
    }
    text += help_line("--" + entry.name + " " + entry.kind, about);
  }
  return text + "\nAn option may also stand in the environment: FULGURITE_TRAINER_MAX_EPOCHS=10.\n"
                "The command line wins over files, and files over the environment.\n";
}

}  // namespace fulgurite::cli
