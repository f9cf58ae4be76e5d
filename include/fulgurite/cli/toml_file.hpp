#pragma once
// Configuration files: read by toml++, written here.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <toml++/toml.h>

#include <fulgurite/cli/list_text.hpp>
#include <fulgurite/cli/table.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

/// One value of a file, and where it stands.
struct Said {
  std::string name;
  Written value;
  std::string where;
};

namespace toml_file {

inline void collect(toml::table const& table, std::string const& prefix, std::string const& file,
                    std::vector<Said>& all) {
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

}  // namespace toml_file

/// All values of a text in TOML; `name` is the file's, for errors.
inline std::vector<Said> read_toml(std::string_view text, std::string const& name) {
  std::vector<Said> all;
  try {
    toml_file::collect(toml::parse(text, name), "", name, all);
  } catch (toml::parse_error const& error) {
    throw Error("fulgurite.cli.config", name + ", line " + std::to_string(error.source().begin.line) + ", column " +
                                            std::to_string(error.source().begin.column) + ": " +
                                            std::string(error.description()));
  }
  return all;
}
inline std::vector<Said> read_toml(std::filesystem::path const& file) {
  std::ifstream stream(file, std::ios::binary);
  std::error_code unknown;
  if (!stream || std::filesystem::is_directory(file, unknown))  // which can be opened, and is as an empty file
    throw Error("fulgurite.cli.config", "the file of --config cannot be read: " + file.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return read_toml(text.str(), file.string());
}

namespace toml_file {

/// A name as a key: TOML has quotes around letters that are not ASCII.
inline std::string key(std::string_view name) {
  std::string all;
  for (std::size_t begin = 0; begin <= name.size();) {
    auto const part = name.substr(begin, name.find('.', begin) - begin);
    bool const ascii = std::ranges::all_of(part, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    (all += begin == 0 ? "" : ".") += ascii ? std::string(part) : quoted(part);
    begin += part.size() + 1;
  }
  return all;
}

}  // namespace toml_file

/// All options with their values, a table for each group; reading it gives them again. An option that follows another
/// one, and such another one, is a comment where nobody gave it: it is no value of the file.
inline std::string to_toml(Table const& table) {
  auto const group_of = [](Entry const& entry) {
    auto const point = entry.name.rfind('.');
    return point == std::string::npos ? std::string() : entry.name.substr(0, point);
  };
  std::vector<std::string> groups;
  for (auto const& entry : table.entries())
    if (entry.listed && std::ranges::find(groups, group_of(entry)) == groups.end()) groups.push_back(group_of(entry));
  std::string text;
  for (auto const& group : groups) {
    if (!group.empty()) text += "\n[" + toml_file::key(group) + "]\n";
    for (auto const& entry : table.entries()) {
      if (!entry.listed || group_of(entry) != group) continue;
      auto const value = entry.text();
      bool const raw = entry.list ? value.starts_with('[') : entry.bare && toml_file::is_bare(value);
      if (table.is_linked(entry.name) && !table.was_said(entry.name)) text += "# ";
      text += toml_file::key(std::string_view(entry.name).substr(group.empty() ? 0 : group.size() + 1)) + " = ";
      text += raw ? value : toml_file::quoted(value);
      text += '\n';
    }
  }
  return text;
}

}  // namespace fulgurite::cli
