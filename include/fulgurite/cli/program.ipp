#pragma once
// The bodies of cli/program.hpp.

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <sstream>
#include <system_error>

#include <fulgurite/cli/program.hpp>

namespace fulgurite::cli {

/// Translates CLI11's error about an option: `error` names the option before a colon.
FULGURITE_BODY std::string words_error(CLI::ParseError const& error, std::vector<std::string> const& arguments) {
  std::string const what = error.what();
  auto const option = what.substr(0, what.find(':'));
  if (error.get_name() != "ArgumentMismatch" || !option.starts_with("--")) return what;
  auto const names_it = [&](std::string const& word) { return word == option || word.starts_with(option + "="); };
  return option + (std::ranges::count_if(arguments, names_it) > 1 ? " is said more than once" : " has no value");
}

/// The arguments in the form that CLI11 needs: it would take the next word for the value of `--name=`, and also an
/// option that follows `--name`. `takes_value(word)`: true if it is an option with a value.
FULGURITE_BODY std::vector<std::string> with_values(std::vector<std::string> const& arguments,
                                                    FunctionRef<bool(std::string const&)> takes_value) {
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

FULGURITE_BODY Words read_words(std::vector<std::string> const& arguments, Table const& table,
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
    app.parse(std::vector<std::string>(given_words.rbegin(), given_words.rend()));  // CLI11 takes them in reverse
  } catch (CLI::ParseError const& error) { throw Error("fulgurite.cli.words", words_error(error, arguments)); }
  for (auto const& word : app.remaining()) {
    if (!word.starts_with('-'))
      throw Error("fulgurite.cli.words", "'" + word + "' belongs to no option; put a value of several words in quotes");
    auto const name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    table.unknown(name.substr(0, name.find('=')), word.substr(0, word.find('=')));
  }
  for (std::size_t i = 0; i != entries.size(); ++i)
    if (given[i]->count() != 0) words.options.emplace_back(entries[i].name, texts[i]);
  if (std::find(verbs.begin(), verbs.end(), words.verb) == verbs.end() && !words.verb.empty()) {
    auto const meant = nearest(words.verb, verbs);
    throw Error("fulgurite.cli.verb", "'" + words.verb + "' is nothing that this program does" +
                                          (meant.empty() ? "." : ": did you mean " + meant + "?") + " It knows " +
                                          listed(verbs));
  }
  return words;
}

/// Appends all values of a table of a file, those of the tables in it with their names before.
FULGURITE_BODY void collect(toml::table const& table, std::string const& prefix, std::string const& file,
                            std::vector<FileValue>& all) {
  for (auto&& [key, node] : table) {
    std::string const name = prefix + std::string(key.str());
    if (auto const* const inner = node.as_table()) {
      collect(*inner, name + ".", file, all);
    } else {
      std::string const where = file + ", line " + std::to_string(node.source().begin.line) + ": " + name;
      all.push_back({name, written(node, where), where});
    }
  }
}

FULGURITE_BODY std::vector<FileValue> read_toml(std::string_view text, std::string const& name) {
  std::vector<FileValue> all;
  try {
    collect(toml::parse(text, name), "", name, all);
  } catch (toml::parse_error const& error) {
    throw Error("fulgurite.cli.config", name + ", line " + std::to_string(error.source().begin.line) + ", column " +
                                            std::to_string(error.source().begin.column) + ": " +
                                            std::string(error.description()));
  }
  return all;
}

FULGURITE_BODY std::vector<FileValue> read_toml(std::filesystem::path const& file) {
  std::ifstream stream(file, std::ios::binary);
  std::error_code unknown;
  if (!stream || std::filesystem::is_directory(file, unknown))  // a folder can be opened, and reads as an empty file
    throw Error("fulgurite.cli.config", "the file of --config cannot be read: " + file.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return read_toml(text.str(), file.string());
}

/// An option's name as a TOML key, with quotes if it has letters that are not ASCII.
FULGURITE_BODY std::string toml_key(std::string_view name) {
  std::string all;
  for (std::size_t begin = 0; begin <= name.size();) {
    auto const part = name.substr(begin, name.find('.', begin) - begin);
    bool const ascii = std::ranges::all_of(part, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    (all += begin == 0 ? "" : ".") += file_text({std::string(part), ascii ? Form::bare : Form::quoted});
    begin += part.size() + 1;
  }
  return all;
}

FULGURITE_BODY std::string to_toml(Table const& table) {
  auto const group_of = [](Entry const& entry) {
    auto const point = entry.name.rfind('.');
    return point == std::string::npos ? std::string() : entry.name.substr(0, point);
  };
  std::vector<std::string> groups;
  for (auto const& entry : table.entries())
    if (entry.listed && std::ranges::find(groups, group_of(entry)) == groups.end()) groups.push_back(group_of(entry));
  std::string text;
  for (auto const& group : groups) {
    if (!group.empty()) text += "\n[" + toml_key(group) + "]\n";
    for (auto const& entry : table.entries()) {
      if (!entry.listed || group_of(entry) != group) continue;
      auto const value = entry.text();
      bool const raw = entry.list ? value.starts_with('[') : entry.bare && is_bare(value);
      if (table.is_linked(entry.name) && !table.was_given(entry.name)) text += "# ";
      text += toml_key(std::string_view(entry.name).substr(group.empty() ? 0 : group.size() + 1)) + " = ";
      text += file_text({value, raw ? Form::bare : Form::quoted});
      text += '\n';
    }
  }
  return text;
}

/// The environment variable of an option: FULGURITE_TRAINER_MAX_EPOCHS for trainer.max_epochs.
FULGURITE_BODY std::string variable_of(std::string_view name) {
  std::string variable = "FULGURITE_";
  for (char const c : name) variable += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

FULGURITE_BODY std::vector<std::string> take_environment(Table& table, char const* const* environment) {
  constexpr std::array<std::string_view, 4> groups{"FULGURITE_TRAINER_", "FULGURITE_MODEL_", "FULGURITE_DATA_",
                                                   "FULGURITE_TUNE_"};
  std::map<std::string, std::string> options;
  for (auto const& name : table.names())
    if (auto const [other, added] = options.emplace(variable_of(name), name); !added)
      throw Error("fulgurite.cli.name", "the options " + other->second + " and " + name +
                                            " have the same name in the environment, " + other->first + ": rename one");
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
    warnings.push_back("warning: [fulgurite.cli.variable] no option of this program has the name of this variable: " +
                       name + cure + "\n");
  }
  return warnings;
}

FULGURITE_BODY std::vector<std::string> resolve(Table& table, Words const& words, char const* const* environment) {
  auto warnings = take_environment(table, environment);
  for (auto const& file : words.configs)
    for (auto const& [name, value, where] : read_toml(std::filesystem::path(file))) table.set(name, value, where);
  for (auto const& [name, text] : words.options) table.set(name, {text}, "--" + name);
  return warnings;
}

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
