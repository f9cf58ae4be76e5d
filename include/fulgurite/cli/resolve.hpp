#pragma once
// Which value an option has: that of the program, of the environment, of files, of the command line, the last one wins.

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/cli/flags.hpp>
#include <fulgurite/cli/table.hpp>
#include <fulgurite/cli/toml_file.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

/// FULGURITE_TRAINER_MAX_EPOCHS is trainer.max_epochs.
inline std::string variable_of(std::string_view name) {
  std::string variable = "FULGURITE_";
  for (char const c : name) variable += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

/// `environment` is the process's, as main or `environ` gives it, to its nullptr. Variables of the groups trainer,
/// model, data and tune that name no option are an Error: a misspelt one would have no effect.
inline void take_environment(Table& table, char const* const* environment) {
  for (; environment && *environment; ++environment) {
    std::string_view const whole = *environment;
    auto const name = whole.substr(0, whole.find('='));
    if (!name.starts_with("FULGURITE_") || name.size() == whole.size()) continue;
    Entry const* found = nullptr;
    for (auto const& entry : table.entries())
      if (variable_of(entry.name) == name) found = &entry;
    if (found) {
      table.set(found->name, whole.substr(name.size() + 1), std::string(name));
      continue;
    }
    for (auto const* group : {"FULGURITE_TRAINER_", "FULGURITE_MODEL_", "FULGURITE_DATA_", "FULGURITE_TUNE_"}) {
      if (!name.starts_with(group)) continue;
      std::vector<std::string> known;
      for (auto const& one : table.names()) known.push_back(variable_of(one));
      auto const meant = nearest(name, known);
      throw Error("fulgurite.cli.unknown", std::string(name) + " in the environment is no option of this program" +
                                               (meant.empty() ? "" : ": did you mean " + meant + "?"));
    }
  }
}

/// Sets all options: environment, then each file in its turn, then the command line.
inline void resolve(Table& table, Words const& words, char const* const* environment) {
  take_environment(table, environment);
  for (auto const& file : words.configs)
    for (auto const& [name, text, where] : read_toml(std::filesystem::path(file))) table.set(name, text, where);
  for (auto const& [name, text] : words.options) table.set(name, text, "--" + name);
}

}  // namespace fulgurite::cli
