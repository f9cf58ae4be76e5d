#pragma once
// Which value an option has: that of the program, of the environment, of files, of the command line, the last one wins.

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/cli/flags.hpp>
#include <fulgurite/cli/table.hpp>
#include <fulgurite/cli/toml_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::cli {

/// FULGURITE_TRAINER_MAX_EPOCHS is trainer.max_epochs.
inline std::string variable_of(std::string_view name) {
  std::string variable = "FULGURITE_";
  for (char const c : name) variable += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

/// Variables that the library, its examples, tests and tools read.
inline constexpr auto own_variables =
    std::to_array<std::string_view>({"FULGURITE_DATA", "FULGURITE_MNIST", "FULGURITE_OBSERVATIONS", "FULGURITE_PYTHON",
                                     "FULGURITE_STARTED_BY", "FULGURITE_TORCHRUN", "FULGURITE_TURNS"});

/// `environment` is the process's, as main or `environ` gives it, to its nullptr. Variables of the groups trainer,
/// model, data and tune that name no option are an Error: a misspelt one would have no effect. Another one that begins
/// as options do may belong to another program: a warning, of those that are returned.
inline std::vector<std::string> take_environment(Table& table, char const* const* environment) {
  constexpr std::array<std::string_view, 4> groups{"FULGURITE_TRAINER_", "FULGURITE_MODEL_", "FULGURITE_DATA_",
                                                   "FULGURITE_TUNE_"};
  std::map<std::string, std::string> options;
  for (auto const& name : table.names())
    if (auto const [other, added] = options.emplace(variable_of(name), name); !added)
      throw Error("fulgurite.cli.name", "the options " + other->second + " and " + name +
                                            " have one name in the environment, " + other->first + ": rename one");
  std::vector<std::string> warnings;
  for (; environment && *environment; ++environment) {
    std::string_view const whole = *environment;
    std::string const name(whole.substr(0, whole.find('=')));
    if (!name.starts_with("FULGURITE_") || name.size() == whole.size()) continue;
    if (std::ranges::find(own_variables, name) != own_variables.end()) continue;
    if (auto const found = options.find(name); found != options.end()) {
      table.set(found->second, {std::string(whole.substr(name.size() + 1))}, name);
      continue;
    }
    std::vector<std::string> known;
    for (auto const& [variable, option] : options) known.push_back(variable);
    auto const meant = nearest(name, known);
    auto const cure = meant.empty() ? std::string() : "; did you mean " + meant + "?";
    if (std::ranges::any_of(groups, [&](auto const group) { return name.starts_with(group); }))
      throw Error("fulgurite.cli.unknown", name + " in the environment is no option of this program" + cure);
    warnings.push_back(report::formatted(
        "warning: [fulgurite.cli.variable] no option of this program has the name of this variable: %s\n",
        (name + cure).c_str()));
  }
  return warnings;
}

/// Sets all options: environment, then each file in its turn, then the command line. Returns warnings.
inline std::vector<std::string> resolve(Table& table, Words const& words, char const* const* environment) {
  auto warnings = take_environment(table, environment);
  for (auto const& file : words.configs)
    for (auto const& [name, value, where] : read_toml(std::filesystem::path(file))) table.set(name, value, where);
  for (auto const& [name, text] : words.options) table.set(name, {text}, "--" + name);
  return warnings;
}

}  // namespace fulgurite::cli
