#pragma once
// The bodies of cli/text.hpp.

#include <fulgurite/cli/text.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::cli {

FULGURITE_BODY std::string part_text(double part) {
  auto text = exact_number(part);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

FULGURITE_BODY bool is_bare(std::string_view text) {
  if (text == "true" || text == "false" || text == "nan" || text == "inf" || text == "-inf") return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  bool const spelt = text.find_first_not_of("0123456789.e+-") == std::string_view::npos;
  return spelt && !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         (text.front() != '0' || text.size() == 1 || text[1] == '.' || text[1] == 'e');
}

/// The text as a file has it, in quotes.
FULGURITE_BODY std::string in_quotes(std::string_view text) {
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

FULGURITE_BODY std::string file_text(Written const& value) {
  return value.form == Form::quoted ? in_quotes(value.text) : value.text;
}

FULGURITE_BODY void require_form(Form form, bool bare, std::string_view text, std::string const& what) {
  if (form == Form::bare && !bare) throw Expected{what + "a text in quotes"};
  if (form == Form::quoted && bare && is_bare(text)) throw Expected{what + "a value without quotes"};
}

FULGURITE_BODY Written written(toml::node const& node, std::string const& where, bool in_list) {
  if (auto const* const value = node.as_boolean()) return {value->get() ? "true" : "false", Form::bare};
  if (auto const* const value = node.as_integer()) return {std::to_string(value->get()), Form::bare};
  if (auto const* const value = node.as_floating_point()) return {part_text(value->get()), Form::bare};
  if (auto const* const value = node.as_string()) return {value->get(), Form::quoted};
  if (auto const* const array = node.as_array(); array && !in_list) {
    auto const item = [&](toml::node const& one) { return file_text(written(one, where, true)); };
    return {"[" + listed(*array, item) + "]", Form::list};
  }
  throw Error("fulgurite.cli.config", where + ": an option must be a number, true, false, a text or a list of these");
}

FULGURITE_BODY std::vector<Written> items_of(std::string_view text) {
  std::vector<Written> items;
  if (text.starts_with('[')) {
    try {
      auto const table = toml::parse("list = " + std::string(text));
      auto const* const array = table["list"].as_array();
      if (!array || table.size() != 1) throw Expected{"a list, as a,b or [1, 2]"};
      for (auto const& one : *array) items.push_back(written(one, "list", true));
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

}  // namespace fulgurite::cli
