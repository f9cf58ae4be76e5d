#pragma once
// The words of a command line, read by CLI11.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <fulgurite/cli/near.hpp>
#include <fulgurite/cli/table.hpp>
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
inline std::string words_error(CLI::ParseError const& error, std::vector<std::string> const& arguments) {
  std::string const what = error.what();
  auto const option = what.substr(0, what.find(':'));
  if (error.get_name() != "ArgumentMismatch" || !option.starts_with("--")) return what;
  auto const names_it = [&](std::string const& word) { return word == option || word.starts_with(option + "="); };
  return option + (std::ranges::count_if(arguments, names_it) > 1 ? " is said more than once" : " has no value");
}

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
inline Words read_words(std::vector<std::string> const& arguments, Table const& table,
                        std::vector<std::string> const& verbs) {
  Words words;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_option("verb", words.verb);
  app.add_option("-c,--config", words.configs)->expected(1)->take_all();
  app.add_flag("--print_config", words.print_config);
  app.add_flag("-h,--help", words.help);
  auto const& entries = table.entries();
  std::vector<std::string> texts(entries.size());
  std::vector<CLI::Option*> given;
  for (std::size_t i = 0; i != entries.size(); ++i)
    given.push_back(app.add_option("--" + entries[i].name, texts[i])->expected(1));
  auto const given_words = with_values(arguments, [&](std::string const& word) {
    return word == "-c" || word == "--config" ||
           std::ranges::any_of(entries, [&](auto const& entry) { return word == "--" + entry.name; });
  });
  try {
    app.parse(std::vector<std::string>(given_words.rbegin(), given_words.rend()));  // as CLI11 takes them
  } catch (CLI::ParseError const& error) { throw Error("fulgurite.cli.words", words_error(error, arguments)); }
  for (auto const& word : app.remaining()) {
    if (!word.starts_with('-'))
      throw Error("fulgurite.cli.words",
                  "'" + word + "' belongs to no option; a value of several words stands in quotes");
    auto const name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    table.unknown(name.substr(0, name.find('=')), word.substr(0, word.find('=')));
  }
  for (std::size_t i = 0; i != entries.size(); ++i)
    if (given[i]->count() != 0) words.options.emplace_back(entries[i].name, texts[i]);
  if (std::find(verbs.begin(), verbs.end(), words.verb) == verbs.end() && !words.verb.empty()) {
    std::string all;
    for (auto const& verb : verbs) (all += all.empty() ? "" : ", ") += verb;
    auto const meant = nearest(words.verb, verbs);
    throw Error("fulgurite.cli.verb", "'" + words.verb + "' is nothing that this program does" +
                                          (meant.empty() ? "." : ": did you mean " + meant + "?") + " It knows " + all);
  }
  return words;
}

}  // namespace fulgurite::cli
