#pragma once
// Which value an option has: that of the program, of the environment, of files, of the command line, the last one wins.

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

/// A command line in its parts: `fit --config a.toml --trainer.max_epochs 10`.
struct Words {
  std::string verb = {};
  std::vector<std::string> configs = {};
  std::vector<std::pair<std::string, std::string>> options = {};  ///< names with what was said, in the table's order
  bool help = false, print_config = false;
};

/// What CLI11 says of an option, in our words: `error` names it before a colon.
std::string words_error(CLI::ParseError const& error, std::vector<std::string> const& arguments);

/// The words as CLI11 is to see them, which would take the next word for the value of `--name=`, and an option that
/// follows `--name` as well. `takes_value(word)`: whether it is an option with a value.
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

/// Errors: an option without a value, one that is given twice, a word that is no option.
Words read_words(std::vector<std::string> const& arguments, Table const& table, std::vector<std::string> const& verbs);

// Configuration files: read by toml++, written here.

/// One value of a file, and where it stands.
struct Said {
  std::string name;
  Written value;
  std::string where;
};

namespace toml_file {

void collect(toml::table const& table, std::string const& prefix, std::string const& file, std::vector<Said>& all);

}  // namespace toml_file

/// All values of a text in TOML; `name` is the file's, for errors.
std::vector<Said> read_toml(std::string_view text, std::string const& name);
std::vector<Said> read_toml(std::filesystem::path const& file);

namespace toml_file {

/// A name as a key: TOML has quotes around letters that are not ASCII.
std::string key(std::string_view name);

}  // namespace toml_file

/// All options with their values, a table for each group; reading it gives them again. An option that follows another
/// one, and such another one, is a comment where nobody gave it: it is no value of the file.
std::string to_toml(Table const& table);

/// FULGURITE_TRAINER_MAX_EPOCHS is trainer.max_epochs.
std::string variable_of(std::string_view name);

/// Variables that the library, its examples, tests and tools read.
inline constexpr auto own_variables =
    std::to_array<std::string_view>({"FULGURITE_DATA", "FULGURITE_MNIST", "FULGURITE_OBSERVATIONS", "FULGURITE_PYTHON",
                                     "FULGURITE_STARTED_BY", "FULGURITE_TORCHRUN", "FULGURITE_TURNS"});

/// `environment` is the process's, as main or `environ` gives it, to its nullptr. Variables of the groups trainer,
/// model, data and tune that name no option are an Error: a misspelt one would have no effect. Another one that begins
/// as options do may belong to another program: a warning, of those that are returned.
std::vector<std::string> take_environment(Table& table, char const* const* environment);

/// Sets all options: environment, then each file in its turn, then the command line. Returns warnings.
std::vector<std::string> resolve(Table& table, Words const& words, char const* const* environment);

}  // namespace fulgurite::cli

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/cli/resolve.ipp>
#endif
