#pragma once
// Spans of time as a person writes them: DD:HH:MM:SS, days, hours, minutes and seconds.

#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// Time, as options take it: `.max_time = Seconds{90}`, or any duration of std::chrono, such as 2h.
using Seconds = std::chrono::duration<double>;

/// The seconds of "00:12:00:00", which are twelve hours; nothing where the text is no DD:HH:MM:SS. Hours are below 24,
/// minutes and seconds below 60.
constexpr std::optional<Seconds> seconds_of(std::string_view text) {
  constexpr std::array<int, 4> unit{86400, 3600, 60, 1};
  constexpr std::array<int, 4> below{std::numeric_limits<int>::max() / 86400, 24, 60, 60};
  double seconds = 0;
  for (std::size_t i = 0; i != 4; ++i) {
    auto const end = i == 3 ? text.size() : text.find(':');
    if (end == std::string_view::npos || end == 0 || end > 9) return std::nullopt;
    int value = 0;
    for (char const c : text.substr(0, end)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = 10 * value + (c - '0');
    }
    if (value >= below[i]) return std::nullopt;
    seconds += static_cast<double>(value) * unit[i];
    text.remove_prefix(i == 3 ? end : end + 1);
  }
  return Seconds(seconds);
}

/// The same as options take it; an Error says what is wrong with another text.
constexpr Seconds time_of(std::string_view text) {
  auto const seconds = seconds_of(text);
  if (!seconds)
    throw Error("fulgurite.options.time",
                "'" + std::string(text) + "' is not DD:HH:MM:SS (days, hours, minutes, seconds), such as 00:12:00:00");
  return *seconds;
}

/// "00:12:00:00" of twelve hours. Parts of a second are left out.
FULGURITE_COLD std::string time_text(Seconds time) {
  auto const whole = static_cast<long long>(time.count());
  std::string text;
  for (long long const part : {whole / 86400, whole / 3600 % 24, whole / 60 % 60, whole % 60}) {
    if (!text.empty()) text += ':';
    if (part < 10) text += '0';
    text += std::to_string(part);
  }
  return text;
}

}  // namespace fulgurite
