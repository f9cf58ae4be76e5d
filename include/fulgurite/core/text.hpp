#pragma once
// Texts: lines for a person, UTF-8, spans of time.

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

// Lines for a person to read. If a progress bar is drawn on the same terminal, they are printed above it.

/// Prints lines above what this process has drawn on a terminal; null if nothing is drawn. report::BlockOfLines sets
/// it.
inline std::atomic<void (*)(std::FILE* stream, std::string_view lines)> writes_above{nullptr};

/// Prints any number of lines of any length, each of which ends with a newline. All output of the library during a run
/// uses this function.
void print_lines(std::FILE* stream, std::string_view lines);

/// Appends an item to a list for a sentence: "a", then "a, b".
void append_item(std::string& all, std::string_view item, std::string_view between = ", ");
/// All items as such a list, by `text_of(item)`.
template <class Items, class Text>
std::string listed(Items const& items, Text text_of) {
  std::string all;
  for (auto const& item : items) append_item(all, text_of(item));
  return all;
}
/// All items, which are texts or numbers.
std::string listed(auto const& items) {
  return listed(items, []<class Item>(Item const& item) {
    if constexpr (std::is_arithmetic_v<Item>) return std::to_string(item);
    else return std::string_view(item);
  });
}

/// The shortest text that reads back as the same double; "nan", "inf", "-inf" for other values.
std::string exact_number(double value);

namespace utf8 {

// The only decoder of UTF-8: where a character ends, and whether it is valid.

/// The number of bytes, 1 to 4, of the character at `at`; 0 if it is invalid: a stray or a missing continuation, an
/// overlong form, a surrogate, or a number above U+10FFFF.
constexpr std::size_t length(std::string_view text, std::size_t at) {
  auto const lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  std::size_t const bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < bytes) return 0;
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i != bytes; ++i) {
    auto const next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  bool const overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  bool const surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : bytes;
}

/// True if all of the text is UTF-8.
constexpr bool is_valid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = length(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

}  // namespace utf8

// Spans of time as a person writes them: DD:HH:MM:SS, days, hours, minutes and seconds.

/// Time in options: `.max_time = Seconds{90}`, or any duration of std::chrono, such as 2h.
using Seconds = std::chrono::duration<double>;

/// The seconds of a text such as "00:12:00:00", which is twelve hours; nullopt if the text is not DD:HH:MM:SS. Hours
/// must be below 24, minutes and seconds below 60.
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

/// The seconds of such a text; throws [fulgurite.options.time] for any other text.
constexpr Seconds time_of(std::string_view text) {
  auto const seconds = seconds_of(text);
  if (!seconds)
    throw Error("fulgurite.options.time",
                "'" + std::string(text) + "' is not DD:HH:MM:SS (days, hours, minutes, seconds), such as 00:12:00:00");
  return *seconds;
}

/// A number alone has no unit, so an option that is a duration refuses it.
template <class Number>
consteval void refuse_number() {
  constexpr bool has_unit = !std::is_arithmetic_v<Number>;
  static_assert(has_unit, "[fulgurite.options.time_unit] a number alone has no unit: write std::chrono::seconds{60}, "
                          "or \"00:00:01:00\" (days, hours, minutes, seconds)");
}

/// A duration as an option, or none: `.max_time = "00:12:00:00"` (days, hours, minutes, seconds), `Seconds{90}`, or any
/// duration of std::chrono, such as 2h. Other text throws an Error.
struct TimeSpan : std::optional<Seconds> {
  // Not a member of an optional: a number that goes through an optional's constructors is refused in too many lines.
  constexpr TimeSpan() = default;
  constexpr TimeSpan(std::nullopt_t) {}
  constexpr TimeSpan(std::optional<Seconds> time) : std::optional<Seconds>(time) {}
  template <class Rep, class Period>
  constexpr TimeSpan(std::chrono::duration<Rep, Period> time) : std::optional<Seconds>(time) {}
  template <std::convertible_to<std::string_view> Text>
  constexpr TimeSpan(Text const& days_hours_minutes_seconds)
      : std::optional<Seconds>(time_of(days_hours_minutes_seconds)) {}
  /// Refused at compile time: a number alone has no unit.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr TimeSpan(Number) {
    refuse_number<Number>();
  }
  friend constexpr bool operator==(TimeSpan const& a, TimeSpan const& b) {
    return a.has_value() == b.has_value() && (!a.has_value() || *a == *b);
  }
};

/// How long something waits, as an option: any duration of std::chrono, such as 30s, or a text as for TimeSpan. It is
/// rounded to whole milliseconds away from zero, which may mean something else, and is at most some 30 years.
struct Timeout : std::chrono::milliseconds {
  constexpr Timeout() : std::chrono::milliseconds(0) {}
  template <class Rep, class Period>
  constexpr Timeout(std::chrono::duration<Rep, Period> time)
      : std::chrono::milliseconds(whole(std::chrono::duration<double, std::milli>(time).count())) {}
  /// Days, hours, minutes and seconds: "00:00:02:00".
  template <std::convertible_to<std::string_view> Text>
  constexpr Timeout(Text const& time) : Timeout(time_of(time)) {}
  /// Refused at compile time, as for TimeSpan.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr Timeout(Number) {
    refuse_number<Number>();
  }

 private:
  static constexpr rep whole(double count) {
    constexpr double most = 1e12;
    if (!(count > -most)) return static_cast<rep>(-most);  // NaN, too: a negative time is refused where it is used
    if (count >= most) return static_cast<rep>(most);
    auto const n = static_cast<rep>(count);
    auto const rest = count - static_cast<double>(n);
    return rest > 0 ? n + 1 : rest < 0 ? n - 1 : n;
  }
};

/// "00:12:00:00" for twelve hours. Fractions of a second are dropped.
std::string time_text(Seconds time);

}  // namespace fulgurite

// A strict reader of JSON that reads one piece at a time and reports where it failed; used for file headers and saved
// state.

namespace fulgurite::json {

/// A string as JSON, in quotes. `text` must be valid UTF-8.
std::string quoted(std::string_view text);

/// Reads values from a text one after the other. Every failure is an Error with `identifier`, which names `source` and
/// the byte in it.
class Reader {
 public:
  Reader(std::string_view text, std::string identifier, std::string source, std::uint64_t first_byte = 0);

  [[noreturn]] void fail(std::string const& why) const;

  /// Skips white space and returns the next character without consuming it; 0 at the end.
  char peek();
  bool accept(char c);
  void expect(char c);
  bool accept_word(std::string_view word);
  void expect_end();

  /// Calls element() at each element of an array; it must read that element.
  void array(auto&& element) {
    enter('[');
    if (!accept(']')) {
      do element();
      while (accept(','));
      expect(']');
    }
    --depth_;
  }
  /// Calls member(key) at each member of an object; it must read the value. Names may repeat: the caller decides if
  /// that is an error.
  void object(auto&& member) {
    enter('{');
    if (!accept('}')) {
      do {
        auto key = string();
        expect(':');
        member(std::move(key));
      } while (accept(','));
      expect('}');
    }
    --depth_;
  }

  std::string string();

  /// The characters of a number in JSON's grammar: no leading zeros, no plus sign, digits on both sides of the point.
  std::string_view number();

  /// Reads an integer without point or exponent that fits into `I`.
  template <class I>
  I integer() {
    auto const text = number();
    I value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      fail("'" + std::string(text) + "' is not an integer in range");
    return value;
  }

 private:
  void enter(char bracket);

  std::uint32_t four_digits();

  void escape(std::string& out);

  std::string_view text_;
  std::string identifier_;
  std::string source_;
  std::uint64_t first_byte_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace fulgurite::json

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/text.ipp>
#endif
