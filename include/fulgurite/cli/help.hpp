#pragma once
// What --help prints, 80 columns wide, or as narrow as the terminal is.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/cli/table.hpp>
#include <fulgurite/report/wrapped_text.hpp>

namespace fulgurite::cli {

/// Two columns: what to write, and what it means, broken between words. What does not fit into the first one stands in
/// a line of its own, and in a narrow terminal everything does.
inline std::string help_line(std::string const& left, std::string_view about, std::size_t width = 80) {
  std::size_t const column = width < 72 ? 6 : 36;
  std::string text = "  " + left;
  if (about.empty()) return text + '\n';
  if (text.size() + 2 > column) text += '\n';
  for (auto const& line : report::wrapped_lines(about, width - column)) {
    auto const begun = text.size() - (text.rfind('\n') + 1);
    text.append(column - std::min(column, begun), ' ');
    (text += line) += '\n';
  }
  return text;
}

/// The whole page. `verbs`: each with what it does.
inline std::string help_page(std::string const& program, std::vector<std::pair<std::string, std::string>> const& verbs,
                             Table const& table, std::size_t columns = 0) {
  std::size_t const width = columns == 0 ? 80 : std::clamp<std::size_t>(columns, 24, 80);
  std::string text = "Usage: " + program + " VERB [OPTIONS]\n\nVerbs\n";
  for (auto const& [verb, about] : verbs) text += help_line(verb, about, width);
  text += "\nOptions\n";
  text += help_line("-h, --help", "this page", width);
  text += help_line("-c, --config FILE", "values from a TOML file; several: the last one wins", width);
  text += help_line("--print_config", "print all options as such a file, and end", width);
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
      about += entry.list ? entry.usual : "[" + entry.usual + "]";
    }
    text += help_line("--" + entry.name + " " + entry.kind, about, width);
  }
  text += '\n';
  for (char const* line : {"An option may also stand in the environment: FULGURITE_TRAINER_MAX_EPOCHS=10.",
                           "The command line wins over files, and files over the environment."})
    text += report::wrapped(line, width);
  return text;
}

}  // namespace fulgurite::cli
