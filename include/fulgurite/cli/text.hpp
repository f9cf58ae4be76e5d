#pragma once
// Converts values to and from texts, as a command line, an environment and a file have them.

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::cli {

/// Thrown by `read` with a description of a valid value. A caller that knows the option makes an Error of it.
struct Expected {
  std::string what;
};

/// The names of an enum's values, in their order. Without a specialization an enum is read as its number.
template <class E>
struct Names;

/// Defines how a type is read and written: `kind` for --help, `bare` if a file has it without quotes, `text` and
/// `read`. Specialize it for your own type.
template <class T>
struct Value;

/// A type that an option can have.
template <class T>
concept Textual = requires(T& value, std::string_view text) {
  Value<T>::read(text, value);
  { Value<T>::text(value) } -> std::convertible_to<std::string>;
};

/// The largest N that a file of options can hold, too: TOML's integers have 63 bits.
template <class N>
constexpr N largest() {
  if constexpr (std::unsigned_integral<N> && sizeof(N) == sizeof(std::int64_t))
    return std::numeric_limits<std::int64_t>::max();
  else return std::numeric_limits<N>::max();
}

/// Parses the whole text as a number. If it is none or does not fit into N, throws `Expected` with `expected`, a noun
/// such as "a count". A number so small that N would hold 0 does not fit, since the user does not mean 0.
template <class N>
  requires std::is_arithmetic_v<N>
N number_of(std::string_view text, std::string const& expected) {
  N number{};
  char const* const end = text.data() + text.size();
  auto const [stopped, fault] = std::from_chars(text.data(), end, number);
  bool const fits = std::is_floating_point_v<N> || number <= largest<N>();  // accepts infinity
  if (fault == std::errc::result_out_of_range || (fault == std::errc{} && !fits)) {
    using Limits = std::numeric_limits<N>;
    if constexpr (std::is_floating_point_v<N>)
      throw Expected{expected +
                     report::formatted(", 0 or of a size from %g", static_cast<double>(Limits::denorm_min())) +
                     report::formatted(" to %g", static_cast<double>(Limits::max()))};
    else throw Expected{expected + " from " + std::to_string(Limits::lowest()) + " to " + std::to_string(largest<N>())};
  }
  if (fault != std::errc{} || stopped != end) throw Expected{expected};
  return number;
}

template <>
struct Value<bool> {
  static constexpr std::string_view kind = "true|false";
  static constexpr bool bare = true;
  static std::string text(bool value) { return value ? "true" : "false"; }
  static void read(std::string_view from, bool& to) {
    if (from != "true" && from != "false") throw Expected{"true or false"};
    to = from == "true";
  }
};
template <class N>
  requires(std::is_arithmetic_v<N> && !std::is_same_v<N, bool>)
struct Value<N> {
  static constexpr std::string_view kind = std::is_integral_v<N> ? "N" : "X";
  static constexpr bool bare = true;
  static std::string text(N value) { return reflect::field_text(value); }
  static void read(std::string_view from, N& to) {
    to = number_of<N>(from, std::is_integral_v<N> ? "a whole number" : "a number");
  }
};
template <class E>
  requires std::is_enum_v<E>
struct Value<E> {
  static constexpr std::string_view kind = "NAME";
  static constexpr bool named = requires { Names<E>::all; };
  static constexpr bool bare = !named;
  using Number = std::underlying_type_t<E>;
  static std::string text(E value) {
    if constexpr (named) return std::string(Names<E>::all[static_cast<std::size_t>(value)]);
    else return reflect::field_text(value);
  }
  static void read(std::string_view from, E& to) {
    if constexpr (named) {
      for (std::size_t i = 0; i != Names<E>::all.size(); ++i)
        if (from == Names<E>::all[i]) return void(to = static_cast<E>(i));
      throw Expected{"one of " + listed(Names<E>::all)};
    } else {
      to = static_cast<E>(number_of<Number>(from, "a whole number"));
    }
  }
};
template <class T>
  requires std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path> || std::is_same_v<T, RootFolder>
struct Value<T> {
  static constexpr std::string_view kind = std::is_same_v<T, std::string> ? "TEXT" : "PATH";
  static constexpr bool bare = false;
  static std::string text(T const& value) {
    if constexpr (std::is_same_v<T, std::string>) return value;
    else return std::filesystem::path(value).string();
  }
  static void read(std::string_view from, T& to) { to = T(std::string(from)); }
};
/// "none" is an empty optional.
template <class T>
  requires Textual<T>
struct Value<std::optional<T>> {
  static constexpr std::string_view kind = Value<T>::kind;
  static constexpr bool bare = Value<T>::bare;
  static std::string text(std::optional<T> const& value) { return value ? Value<T>::text(*value) : "none"; }
  static void read(std::string_view from, std::optional<T>& to) {
    if (from == "none") return to.reset();
    std::optional<T> now(std::in_place);
    try {
      Value<T>::read(from, *now);
    } catch (Expected const& expected) { throw Expected{expected.what + ", or none"}; }
    to = std::move(now);
  }
};

// How the trainer's own options are written and read: times, limits, intervals, clipping.

template <>
struct Names<Mode> {
  static constexpr std::array<std::string_view, 2> all{"min", "max"};
};
template <>
struct Names<NonFinite> {
  static constexpr std::array<std::string_view, 3> all{"stop", "skip", "ignore"};
};

/// A number with a point or an exponent, so that it is read as a fraction and not as a count.
std::string part_text(double part);

template <>
struct Value<Seconds> {
  static constexpr std::string_view kind = "DD:HH:MM:SS";
  static constexpr bool bare = false;
  static std::string text(Seconds time) {
    return time == std::chrono::floor<std::chrono::seconds>(time) && time.count() >= 0
               ? time_text(time)
               : exact_number(time.count()) + " s";
  }
  /// Also accepts seconds with an s: "1.5 s".
  static void read(std::string_view from, Seconds& to) {
    if (auto const seconds = seconds_of(from)) return void(to = *seconds);
    if (!from.ends_with(" s")) throw Expected{"DD:HH:MM:SS (days, hours, minutes, seconds)"};
    std::string const expected = "DD:HH:MM:SS, or seconds as 1.5 s";
    auto const seconds = number_of<double>(from.substr(0, from.size() - 2), expected);
    if (!std::isfinite(seconds)) throw Expected{expected};
    to = Seconds(seconds);
  }
};
template <>
struct Value<TimeSpan> : Value<std::optional<Seconds>> {};
/// 10 is a count of batches, 0.5 a fraction of the loader, as in Lightning; 1.0 is all of it.
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
/// A count or a fraction as for Limit, or a time.
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
    return (clip.kind == Clip::Kind::norm ? "norm " : "value ") + exact_number(clip.limit);
  }
  static void read(std::string_view from, Clip& to) {
    std::string const expected = "none, norm X (of all gradients together) or value X (each element)";
    if (from == "none") to = {};
    else if (from.starts_with("norm ")) to = ClipNorm{number_of<double>(from.substr(5), expected)};
    else if (from.starts_with("value ")) to = ClipValue{number_of<double>(from.substr(6), expected)};
    else throw Expected{expected};
  }
};

/// True if a file has such a text without quotes, since it reads back as the same number or boolean.
bool is_bare(std::string_view text);

/// How a value was written. A command line and an environment have free texts only; in a file numbers and booleans are
/// bare, and texts are quoted.
enum class Form { free, bare, quoted, list };

/// A value as it was written.
struct Written {
  std::string text;
  Form form = Form::free;
};
/// The value in the form that a file has.
std::string file_text(Written const& value);

/// Throws Expected if a file has a value with wrong quotes: a quoted number or a bare text. `bare`: the option's values
/// have no quotes. `what`: a prefix of the expected description.
void require_form(Form form, bool bare, std::string_view text, std::string const& what = {});

/// Converts a TOML node: a number, boolean or text, or a list of these; anything else throws an Error.
Written written(toml::node const& node, std::string const& where, bool in_list = false);

/// Splits a list: `a,b` on a command line, or `[1, 2]` or `["a", "b"]` in a file.
std::vector<Written> items_of(std::string_view text);

/// True if the type is a list of values.
template <class T>
inline constexpr bool is_list = requires { requires Value<T>::list; };

template <class E>
  requires(Textual<E> && !is_list<E>)
struct Value<std::vector<E>> {
  static constexpr bool list = true, bare = true;
  static inline std::string const kind = std::string(Value<E>::kind) + "," + std::string(Value<E>::kind);

  static std::string text(std::vector<E> const& values) {
    auto const item = [](E const& one) {
      auto const text = Value<E>::text(one);
      bool const quotes = !Value<E>::bare || !is_bare(text);
      return file_text({text, quotes ? Form::quoted : Form::bare});
    };
    return "[" + listed(values, item) + "]";
  }
  static void read(std::string_view from, std::vector<E>& to) {
    static std::string const each = "a list in which each item is ";
    std::vector<E> now;
    for (auto const& [text, form] : items_of(from)) {
      E one{};
      try {
        Value<E>::read(text, one);
      } catch (Expected const& expected) { throw Expected{each + expected.what}; }
      require_form(form, Value<E>::bare, text, each);
      now.push_back(std::move(one));
    }
    to = std::move(now);
  }
};

}  // namespace fulgurite::cli

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/cli/text.ipp>
#endif
