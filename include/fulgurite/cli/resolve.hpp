#pragma once
// Resolves the value of each option from the program, the environment, files, and the command line; the last one wins.

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <toml++/toml.h>

#include <fulgurite/cli/table.hpp>
#include <fulgurite/cli/text.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

/// The parts of a command line, such as `fit --config a.toml --trainer.max_epochs 10`.
struct Words {
  std::string verb = {};
  std::vector<std::string> configs = {};
  std::vector<std::pair<std::string, std::string>> options = {};  ///< names and values, in the table's order
  bool help = false, print_config = false;
};

/// Translates CLI11's error about an option: `error` names the option before a colon.
std::string words_error(CLI::ParseError const& error, std::vector<std::string> const& arguments);

/// The arguments in the form that CLI11 needs: it would take the next word for the value of `--name=`, and also an
/// option that follows `--name`. `takes_value(word)`: true if it is an option with a value.
template <class TakesValue>
std::vector<std::string> with_values(std::vector<std::string> const& arguments, TakesValue takes_value) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i != arguments.size(); ++i) {
    auto const& word = arguments[i];
    auto const name = word.substr(0, word.find('='));
    if (!takes_value(name) || word.size() > name.size() + 1) {
      words.push_back(word);
      continue;
    }
    words.push_back(name);
    if (name != word) {
      words.emplace_back();
    } else if (i + 1 != arguments.size()) {
      if (arguments[i + 1].starts_with("--"))
        throw Error("fulgurite.cli.words", name + " has no value: after it comes " + arguments[i + 1] +
                                               " (a value that begins so is written " + name + "=VALUE)");
      words.push_back(arguments[++i]);
    }
  }
  return words;
}

/// Parses the arguments. Throws an Error for an option without a value, an option that is given twice, and an unknown
/// word.
Words read_words(std::vector<std::string> const& arguments, Table const& table, std::vector<std::string> const& verbs);

// Configuration files: read by toml++, written by the functions here.

/// One value of a file, and its position.
struct FileValue {
  std::string name;
  Written value;
  std::string where;
};

namespace toml_file {

void collect(toml::table const& table, std::string const& prefix, std::string const& file, std::vector<FileValue>& all);

}  // namespace toml_file

/// All values of a TOML text; `name` is the file's name in errors.
std::vector<FileValue> read_toml(std::string_view text, std::string const& name);
std::vector<FileValue> read_toml(std::filesystem::path const& file);

namespace toml_file {

/// An option's name as a TOML key, with quotes if it has letters that are not ASCII.
std::string key(std::string_view name);

}  // namespace toml_file

/// All options with their values, with a table for each group; reading the text gives the same values. If options are
/// linked and none was given, they are written as comments, since the file does not set them.
std::string to_toml(Table const& table);

/// The environment variable of an option: FULGURITE_TRAINER_MAX_EPOCHS for trainer.max_epochs.
std::string variable_of(std::string_view name);

/// Variables that the library, its examples, tests and tools read.
inline constexpr auto own_variables =
    std::to_array<std::string_view>({"FULGURITE_DATA", "FULGURITE_MNIST", "FULGURITE_OBSERVATIONS", "FULGURITE_PYTHON",
                                     "FULGURITE_STARTED_BY", "FULGURITE_TORCHRUN", "FULGURITE_TURNS"});

/// Sets options from the environment: `environment` is a null-terminated array, as main gets it or `environ`. Throws an
/// Error for a variable of the groups trainer, model, data and tune that names no option, since a misspelt one would
/// have no effect. Other unknown variables with the prefix may belong to another program: returns a warning for each.
std::vector<std::string> take_environment(Table& table, char const* const* environment);

/// Sets all options: from the environment, then from each file in turn, then from the command line. Returns warnings.
std::vector<std::string> resolve(Table& table, Words const& words, char const* const* environment);

}  // namespace fulgurite::cli

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/cli/resolve.ipp>
#endif
