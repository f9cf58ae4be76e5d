#pragma once
// Numbers as a person reads them, and numbers as a program reads them back exactly.

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include <fulgurite/core/cold.hpp>

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
