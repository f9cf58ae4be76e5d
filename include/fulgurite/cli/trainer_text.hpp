#pragma once
// How the trainer's own options are written and read: times, limits, intervals, clipping.

#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/cli/text.hpp>
#include <fulgurite/core/mode.hpp>
#include <fulgurite/core/time_text.hpp>
#include <fulgurite/loop/limits.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::cli {

template <>
struct Names<Mode> {
  static constexpr std::array<std::string_view, 2> all{"min", "max"};
};
template <>
struct Names<NonFinite> {
  static constexpr std::array<std::string_view, 3> all{"stop", "skip", "ignore"};
};

/// A number with a point or an exponent, so that it is read as a part and no count.
inline std::string part_text(double part) {
  auto text = report::exact(part);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

template <class T>
  requires std::is_same_v<T, TimeSpan> || std::is_same_v<T, Seconds>
struct Value<T> {
  using Initial = Seconds;  ///< a TimeSpan has no default
  static constexpr std::string_view kind = "DD:HH:MM:SS";
  static constexpr bool bare = false;
  static std::string text(T const& time) {
    return time == std::chrono::floor<std::chrono::seconds>(time) && time.count() >= 0
               ? time_text(time)
               : report::exact(time.count()) + " s";
  }
  /// Seconds with an s, too: "1.5 s".
  static void read(std::string_view from, T& to) {
    if (auto const seconds = seconds_of(from)) return void(to = T(*seconds));
    if (!from.ends_with(" s")) throw Expected{"DD:HH:MM:SS (days, hours, minutes, seconds)"};
    std::string const expected = "DD:HH:MM:SS, or seconds as 1.5 s";
    auto const seconds = number_of<double>(from.substr(0, from.size() - 2), expected);
    if (!std::isfinite(seconds)) throw Expected{expected};
    to = T(Seconds(seconds));
  }
};
/// 10 is a count of batches, 0.5 a part of the loader, as in Lightning; 1.0 is all of it.
template <>
struct Value<Limit> {
  static constexpr std::string_view kind = "N|0.5";
  static constexpr bool bare = true;
  static std::string text(Limit const& limit) {
    return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches) : part_text(limit.part);
  }
  static void read(std::string_view from, Limit& to) {
    std::string const expected = "a count of batches, as 10, or a part with a point, as 0.5";
    if (from.find_first_of(".en") == std::string_view::npos) to = Batches{number_of<long>(from, expected)};
    else to = Fraction{number_of<double>(from, expected)};
  }
};
/// The same, or a time.
template <>
struct Value<ValidationInterval> {
  static constexpr std::string_view kind = "N|0.5|DD:HH:MM:SS";
  static constexpr bool bare = true;
  static std::string text(ValidationInterval const& every) {
    if (every.kind == ValidationInterval::Kind::time) return Value<Seconds>::text(every.time);
    return every.kind == ValidationInterval::Kind::batches ? std::to_string(every.batches) : part_text(every.part);
  }
  static void read(std::string_view from, ValidationInterval& to) {
    if (from.find(':') != std::string_view::npos || from.ends_with(" s")) {
      Seconds every{};
      Value<Seconds>::read(from, every);
      to = every;
    } else {
      Limit limit;
      Value<Limit>::read(from, limit);
      if (limit.kind == Limit::Kind::batches) to = Batches{limit.batches};
      else to = Fraction{limit.part};
    }
  }
};
template <>
struct Value<Clip> {
  static constexpr std::string_view kind = "\"norm X\"|\"value X\"";
  static constexpr bool bare = false;
  static std::string text(Clip const& clip) {
    if (clip.kind == Clip::Kind::none) return "none";
    return (clip.kind == Clip::Kind::norm ? "norm " : "value ") + report::exact(clip.limit);
  }
  static void read(std::string_view from, Clip& to) {
    std::string const expected = "none, norm X (of all gradients together) or value X (each element)";
    if (from == "none") to = {};
    else if (from.starts_with("norm ")) to = ClipNorm{number_of<double>(from.substr(5), expected)};
    else if (from.starts_with("value ")) to = ClipValue{number_of<double>(from.substr(6), expected)};
    else throw Expected{expected};
  }
};

}  // namespace fulgurite::cli
