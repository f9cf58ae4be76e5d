#pragma once
// Configuration files: read by toml++, written here.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include <fulgurite/cli/table.hpp>
#include <fulgurite/cli/text.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

/// One value of a file, as a command line would write it, and where it stands.
struct Said {
  std::string name;
  std::string text;
  std::string where;
};

namespace toml_file {

/// Numbers, truth values and texts; an array is a text with commas. Nothing else is the value of an option.
inline std::string text_of(toml::node const& node, std::string const& where) {
  if (auto const* const value = node.as_boolean()) return value->get() ? "true" : "false";
  if (auto const* const value = node.as_integer()) return std::to_string(value->get());
  if (auto const* const value = node.as_floating_point()) return part_text(value->get());
  if (auto const* const value = node.as_string()) return value->get();
  if (auto const* const array = node.as_array()) {
    std::string all;
    bool nested = false;
    for (auto const& one : *array) {
      nested = nested || one.is_array();
      if (!nested) (all += all.empty() ? "" : ",") += text_of(one, where);
    }
    if (!nested) return all;
  }
  throw Error("fulgurite.cli.config", where + ": an option is a number, true, false, a text or a list of texts");
}

inline void collect(toml::table const& table, std::string const& prefix, std::string const& file,
                    std::vector<Said>& all) {
  for (auto&& [key, node] : table) {
    std::string const name = prefix + std::string(key.str());
    if (auto const* const inner = node.as_table()) {
      collect(*inner, name + ".", file, all);
    } else {
      std::string const where = file + ", line " + std::to_string(node.source().begin.line) + ": " + name;
      all.push_back({name, text_of(node, where), where});
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
  if (!stream) throw Error("fulgurite.cli.config", "the file of --config cannot be read: " + file.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return read_toml(text.str(), file.string());
}

namespace toml_file {

/// It reads back as the same number or truth value without quotes.
inline bool is_bare(std::string_view text) {
  if (text == "true" || text == "false" || text == "nan" || text == "inf" || text == "-inf") return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  bool const spelt = text.find_first_not_of("0123456789.e+-") == std::string_view::npos;
  return spelt && !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         (text.front() != '0' || text.size() == 1 || text[1] == '.' || text[1] == 'e');
}
inline std::string quoted(std::string_view text) {
  std::string all = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') all += '\\';
    if (c == '\n') all += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      auto const code = static_cast<unsigned char>(c);
      all += "\\u00";
      all += digits[code / 16];
      all += digits[code % 16];
    } else {
      all += c;
    }
  }
  return all += '"';
}

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

/// All options with their values, a table for each group; reading it gives them again.
inline std::string to_toml(Table const& table) {
  std::string text, group;
  for (auto const& entry : table.entries()) {
    if (!entry.listed) continue;
    auto const point = entry.name.rfind('.');
    auto const of = point == std::string::npos ? std::string() : entry.name.substr(0, point);
    if (of != group) {
      text += "\n[";
      (text += toml_file::key(of)) += "]\n";
      group = of;
    }
    auto const value = entry.text();
    text += toml_file::key(std::string_view(entry.name).substr(point == std::string::npos ? 0 : point + 1)) + " = ";
    text += entry.bare && toml_file::is_bare(value) ? value : toml_file::quoted(value);
    text += '\n';
  }
  return text;
}

}  // namespace fulgurite::cli
