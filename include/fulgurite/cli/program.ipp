#pragma once
// The bodies of cli/program.hpp.

#include <algorithm>
#include <system_error>

#include <fulgurite/cli/program.hpp>

namespace fulgurite::cli {

FULGURITE_BODY void check_ckpt_path(std::optional<std::string> const& path) {
  if (!path || *path == "last" || *path == "hpc") return;
  if (*path == "best")
    throw Error("fulgurite.cli.ckpt_path", "--ckpt_path best: which file is the best is known to the process that has "
                                           "trained alone: name the file");
  std::error_code unknown;
  if (!std::filesystem::exists(*path, unknown))
    throw Error("fulgurite.cli.ckpt_path", "--ckpt_path " + *path + ": there is no such file");
  if (std::filesystem::is_directory(*path, unknown))
    throw Error("fulgurite.cli.ckpt_path",
                "--ckpt_path " + *path + ": this is a folder: name a file in it, or say last");
}

FULGURITE_BODY std::string help_line(std::string const& left, std::string_view about, std::size_t width) {
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

FULGURITE_BODY std::string help_page(std::string const& program,
                                     std::vector<std::pair<std::string, std::string>> const& verbs, Table const& table,
                                     std::size_t columns) {
  std::size_t const width = columns == 0 ? 80 : std::clamp<std::size_t>(columns, 24, 80);
  std::string text = "Usage: " + program + " VERB [OPTIONS]\n\nVerbs\n";
  for (auto const& [verb, about] : verbs) text += help_line(verb, about, width);
  text += "\nOptions\n";
  text += help_line("-h, --help", "this page", width);
  text += help_line("-c, --config FILE", "values from a TOML file; several: the last one wins", width);
  text += help_line("--print_config", "print all options as such a file, and exit", width);
  std::string group;
  for (auto const& entry : table.entries()) {
    auto const of = entry.name.substr(0, entry.name.find('.'));
    if (entry.name.find('.') != std::string::npos && of != group) {
      text += "\n--" + of + ".*\n";
      group = of;
    }
    std::string about = entry.about;
    if (!entry.initial.empty()) {
      if (!about.empty()) about += ' ';
      about += entry.list ? entry.initial : "[" + entry.initial + "]";
    }
    text += help_line("--" + entry.name + " " + entry.kind, about, width);
  }
  text += '\n';
  for (char const* line : {"Options may also be set in the environment: FULGURITE_TRAINER_MAX_EPOCHS=10.",
                           "The command line wins over files, and files over the environment."})
    text += report::wrapped(line, width);
  return text;
}

}  // namespace fulgurite::cli
