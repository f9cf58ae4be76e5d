#pragma once
// Numbers for people to read, and numbers that a program reads back exactly.

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/body.hpp>
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

/// A count in Lightning's notation: 203530 is "203 K", 1234 is "1.2 K", 7 is "7". From 100 on, digits are cut off, not
/// rounded.
std::string count_text(std::int64_t count);

/// A number of bytes in powers of 1000: 814120 is "814.1 kB".
std::string bytes_text(std::int64_t bytes);

/// Whole seconds in tqdm's format: 75.4 is "01:15", 3725 is "1:02:05".
std::string clock_text(double seconds);

/// The shortest text that reads back as the same double; "nan", "inf", "-inf" for other values.
std::string exact(double value);

}  // namespace fulgurite::report

namespace fulgurite::reflect {

// The text of a setting, for a person.

/// The text of a field, for a person. For a type of your own, define a function `field_text(T const&)` in its
/// namespace.
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

// Numbers and strings in YAML, so that readers get the right types.

/// The number as YAML, exact and always with a point: readers of YAML 1.1 would read 1e-05 as a string and 3 as an
/// integer.
std::string yaml(double value);

/// The text in double quotes. YAML readers refuse bytes that are not UTF-8, which become U+FFFD, and control
/// characters, which are escaped; so are characters that YAML takes for ends of lines.
std::string yaml(std::string_view text);

// Any text as text in an XML file.

/// The text for an element or an attribute, with XML's own characters as entities. Control characters become spaces.
/// Bytes that are not UTF-8, and the two characters that XML forbids, become U+FFFD.
std::string xml_text(std::string_view text);

/// Like xml_text, but keeps line breaks.
std::string xml_lines(std::string_view text);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/numbers.ipp>
#endif
