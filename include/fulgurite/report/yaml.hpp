#pragma once
// Numbers and texts written so that YAML readers read them as such.

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/utf8.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

/// The number as YAML, exact and always with a point: readers of YAML 1.1 would take 1e-05 for a text and 3 for an
/// integer.
FULGURITE_COLD std::string yaml(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  auto text = exact(value);
  if (auto const at = text.find('e'); text.find('.') == std::string::npos)
    text.insert(at == std::string::npos ? text.size() : at, ".0");
  return text;
}

/// The text in double quotes. YAML's readers refuse files with bytes that are no UTF-8, each of which becomes the sign
/// for an unknown character, U+FFFD, and with control characters, which are escaped; so are those that YAML takes for
/// ends of lines.
FULGURITE_COLD std::string yaml(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    bytes = utf8::length(text, at);
    auto const one = text.substr(at, bytes == 0 ? 1 : bytes);
    auto const code = static_cast<unsigned char>(one[0]);
    if (bytes == 0) out += "\xEF\xBF\xBD", bytes = 1;
    else if (one == "\"" || one == "\\") (out += '\\') += one;
    else if (code < 0x20 || code == 0x7F) ((out += "\\u00") += digits[code >> 4]) += digits[code & 15];
    else if (one >= "\xC2\x80" && one < "\xC2\xA0")
      ((out += "\\u00") += digits[static_cast<unsigned char>(one[1]) >> 4]) += digits[one[1] & 15];
    else if (one == "\xE2\x80\xA8" || one == "\xE2\x80\xA9") (out += "\\u202") += one == "\xE2\x80\xA8" ? '8' : '9';
    else if (one == "\xEF\xBF\xBE" || one == "\xEF\xBF\xBF") (out += "\\uff") += one == "\xEF\xBF\xBE" ? "fe" : "ff";
    else out += one;
  }
  return out + '"';
}

}  // namespace fulgurite::report
