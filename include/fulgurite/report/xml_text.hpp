#pragma once
// Any text as the text of an XML file.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <fulgurite/core/utf8.hpp>

namespace fulgurite::report {

/// The text with XML's own characters written as entities, so that it can stand in an element or in an attribute.
/// Control characters become blanks. Bytes that are no UTF-8, and the two characters that XML forbids, become the
/// replacement character.
inline std::string xml_text(std::string_view text) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = utf8::length(text, at);
    auto const character = text.substr(at, bytes == 0 ? 1 : bytes);
    if (bytes == 0 || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") made += "\xEF\xBF\xBD";
    else if (character == "&") made += "&amp;";
    else if (character == "<") made += "&lt;";
    else if (character == ">") made += "&gt;";
    else if (character == "\"") made += "&quot;";
    else if (character == "'") made += "&apos;";
    else if (static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F) made += ' ';
    else made += character;
    at += character.size();
  }
  return made;
}

/// The same of a text of several lines, which it stays.
inline std::string xml_lines(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    all += xml_text(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

}  // namespace fulgurite::report
