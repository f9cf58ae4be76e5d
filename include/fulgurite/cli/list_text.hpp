#pragma once
// Values as a file writes them: in quotes or without, and lists of them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include <fulgurite/cli/text.hpp>
#include <fulgurite/cli/trainer_text.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

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

}  // namespace toml_file

/// How a value was written. A command line and an environment have free texts alone; in a file a number or a truth
/// value is bare, and a text is quoted.
enum class Form { free, bare, quoted, list };

/// A value as it was written.
struct Written {
  std::string text;
  Form form = Form::free;
};
/// As a file has it.
inline std::string file_text(Written const& value) {
  return value.form == Form::quoted ? toml_file::quoted(value.text) : value.text;
}

/// Throws Expected where a file has a value in quotes that belongs to none, or the other way round. `bare`: of the
/// option, whether a file writes its numbers without quotes. `what`: in front of what is expected.
inline void require_form(Form form, bool bare, std::string_view text, std::string const& what = {}) {
  if (form == Form::bare && !bare) throw Expected{what + "a text in quotes"};
  if (form == Form::quoted && bare && toml_file::is_bare(text)) throw Expected{what + "a value without quotes"};
}

namespace toml_file {

/// Numbers, truth values and texts, and lists of these; nothing else is the value of an option.
inline Written written(toml::node const& node, std::string const& where, bool in_list = false) {
  if (auto const* const value = node.as_boolean()) return {value->get() ? "true" : "false", Form::bare};
  if (auto const* const value = node.as_integer()) return {std::to_string(value->get()), Form::bare};
  if (auto const* const value = node.as_floating_point()) return {part_text(value->get()), Form::bare};
  if (auto const* const value = node.as_string()) return {value->get(), Form::quoted};
  if (auto const* const array = node.as_array(); array && !in_list) {
    std::string all;
    for (auto const& one : *array) (all += all.empty() ? "" : ", ") += file_text(written(one, where, true));
    return {"[" + all + "]", Form::list};
  }
  throw Error("fulgurite.cli.config", where + ": an option is a number, true, false, a text or a list of these");
}

}  // namespace toml_file

/// `a,b` as a command line has it, or `[1, 2]`, `["a", "b"]` as a file.
inline std::vector<Written> items_of(std::string_view text) {
  std::vector<Written> items;
  if (text.starts_with('[')) {
    try {
      auto const table = toml::parse("list = " + std::string(text));
      auto const* const array = table["list"].as_array();
      if (!array || table.size() != 1) throw Expected{"a list, as a,b or [1, 2]"};
      for (auto const& one : *array) items.push_back(toml_file::written(one, "list", true));
    } catch (toml::parse_error const&) { throw Expected{"a list, as a,b or [1, 2]"}; } catch (Error const&) {
      throw Expected{"a list of numbers, truth values or texts"};
    }
    return items;
  }
  while (!text.empty()) {
    auto const end = std::min(text.find(','), text.size());
    items.push_back({std::string(text.substr(0, end))});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return items;
}

/// A type that is a list of values.
template <class T>
inline constexpr bool is_list = requires { requires Value<T>::list; };

template <class E>
  requires(Textual<E> && !is_list<E>)
struct Value<std::vector<E>> {
  static constexpr bool list = true, bare = true;
  static inline std::string const kind = std::string(Value<E>::kind) + "," + std::string(Value<E>::kind);

  static std::string text(std::vector<E> const& values) {
    std::string all;
    for (E const& one : values) {
      auto const text = Value<E>::text(one);
      bool const quotes = !Value<E>::bare || !toml_file::is_bare(text);
      (all += all.empty() ? "" : ", ") += file_text({text, quotes ? Form::quoted : Form::bare});
    }
    return "[" + all + "]";
  }
  static void read(std::string_view from, std::vector<E>& to) {
    static std::string const each = "a list in which each item is ";
    std::vector<E> now;
    for (auto const& [text, form] : items_of(from)) {
      E one{};
      try {
        Value<E>::read(text, one);
      } catch (Expected const& expected) { throw Expected{each + expected.what}; }
      require_form(form, Value<E>::bare, text, each);
      now.push_back(std::move(one));
    }
    to = std::move(now);
  }
};

}  // namespace fulgurite::cli
