#pragma once
// Names and texts as formats want them that know nothing but UTF-8.

#include <cstddef>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/utf8.hpp>

namespace fulgurite::logger {

/// The text, with the sign for an unknown character, U+FFFD, in the place of each byte that is no UTF-8: a reader would
/// refuse the whole row for one of them.
FULGURITE_BULK std::string utf8_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    auto const bytes = utf8::length(text, at);
    if (bytes == 0) out += "\xEF\xBF\xBD";
    else out += text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

}  // namespace fulgurite::logger
