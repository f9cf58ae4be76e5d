#pragma once
// The bodies of report/numbers.hpp.

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

FULGURITE_BULK_BODY std::string count_text(std::int64_t count) {
  constexpr std::array<char const*, 5> units{"", " K", " M", " B", " T"};
  double value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 != units.size(); ++unit) value /= 1000.0;
  if (unit == 0) return std::to_string(count);
  return (value >= 100.0 ? formatted("%.0f", std::floor(value)) : formatted("%.1f", value)) + units[unit];
}

FULGURITE_BULK_BODY std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<char const*, 5> units{" B", " kB", " MB", " GB", " TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 != units.size(); ++unit) value /= 1000.0;
  return unit == 0 ? std::to_string(bytes) + units[0] : formatted("%.1f", value) + units[unit];
}

FULGURITE_BULK_BODY std::string clock_text(double seconds) {
  auto const whole = static_cast<long long>(seconds < 0 ? 0.0 : seconds);
  std::array<char, 48> text{};
  if (whole >= 3600)
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else std::snprintf(text.data(), text.size(), "%02lld:%02lld", whole / 60, whole % 60);
  return text.data();
}

FULGURITE_BULK_BODY std::string exact(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

FULGURITE_BODY std::string yaml(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  auto text = exact(value);
  if (auto const at = text.find('e'); text.find('.') == std::string::npos)
    text.insert(at == std::string::npos ? text.size() : at, ".0");
  return text;
}

FULGURITE_BODY std::string yaml(std::string_view text) {
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

FULGURITE_BODY std::string xml_text(std::string_view text) {
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

FULGURITE_BODY std::string xml_lines(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    all += xml_text(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

}  // namespace fulgurite::report
