#pragma once
// Numbers as a person reads them, and numbers as a program reads them back exactly.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::report {

/// One value, formatted by a printf format.
template <class T>
std::string formatted(char const* format, T value) {
  std::array<char, 64> text{};
  int const length = std::snprintf(text.data(), text.size(), format, value);
  if (length < 0) return {};
  if (static_cast<std::size_t>(length) < text.size()) return {text.data(), static_cast<std::size_t>(length)};
  std::string longer(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(longer.data(), longer.size(), format, value);
  longer.pop_back();
  return longer;
}

/// A count in Lightning's notation: 203530 is "203 K", 1234 is "1.2 K", 7 is "7". From 100 on digits are cut off, not
/// rounded.
FULGURITE_BULK std::string count_text(std::int64_t count) {
  constexpr std::array<char const*, 5> units{"", " K", " M", " B", " T"};
  double value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 != units.size(); ++unit) value /= 1000.0;
  if (unit == 0) return std::to_string(count);
  return (value >= 100.0 ? formatted("%.0f", std::floor(value)) : formatted("%.1f", value)) + units[unit];
}

/// A number of bytes in powers of 1000: 814120 is "814.1 kB".
FULGURITE_BULK std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<char const*, 5> units{" B", " kB", " MB", " GB", " TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 != units.size(); ++unit) value /= 1000.0;
  return unit == 0 ? std::to_string(bytes) + units[0] : formatted("%.1f", value) + units[unit];
}

/// Seconds as tqdm writes them, whole: 75.4 is "01:15", 3725 is "1:02:05".
FULGURITE_BULK std::string clock_text(double seconds) {
  auto const whole = static_cast<long long>(seconds < 0 ? 0.0 : seconds);
  std::array<char, 48> text{};
  if (whole >= 3600)
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else std::snprintf(text.data(), text.size(), "%02lld:%02lld", whole / 60, whole % 60);
  return text.data();
}

/// The shortest text that reads back as the same double; "nan", "inf", "-inf" for what is not finite.
FULGURITE_BULK std::string exact(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace fulgurite::report

namespace fulgurite::reflect {

// A setting as a person reads it.

/// A field as a person reads it. For a type of your own write a function `field_text(T const&)` beside it.
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
std::string field_text(T const& value) {
  if constexpr (std::same_as<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_same_v<T, float>) return report::formatted("%.9g", static_cast<double>(value));
  else if constexpr (std::is_floating_point_v<T>) return report::exact(static_cast<double>(value));
  else if constexpr (std::is_enum_v<T>) return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  else return std::to_string(value);
}
inline std::string field_text(std::string const& value) { return value; }
inline std::string field_text(std::filesystem::path const& value) { return value.string(); }
template <class Rep, class Period>
std::string field_text(std::chrono::duration<Rep, Period> const& value) {
  return report::exact(std::chrono::duration<double>(value).count()) + " s";
}
template <class T>
std::string field_text(std::optional<T> const& value) {
  return value ? field_text(*value) : "none";
}

}  // namespace fulgurite::reflect

namespace fulgurite::report {

// Numbers and texts written so that YAML readers read them as such.

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

// Any text as the text of an XML file.

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
