#pragma once
// Values as a command line, an environment and a file write them, and back. Those that are the trainer's own are in
// trainer_text.hpp.

#include <charconv>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/is_optional.hpp>
#include <fulgurite/core/root_folder.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::cli {

/// What a value would have been: thrown by `read`, and made a sentence by whoever knows the option.
struct Expected {
  std::string what;
};

/// The names of an enum, in the order of its values. Without a specialization an enum is read as its number.
template <class E>
struct Names;

/// One type: `kind` for a list of options, whether a file writes it without quotes (`bare`), `text` and `read`.
/// Specialize it for a type of yours.
template <class T>
struct Value;

/// An option can have this type.
template <class T>
concept Textual = requires(T& value, std::string_view text) {
  Value<T>::read(text, value);
  { Value<T>::text(value) } -> std::convertible_to<std::string>;
};

/// The largest N that a file of options can hold as well: TOML's whole numbers have 63 bits.
template <class N>
constexpr N largest() {
  if constexpr (std::unsigned_integral<N> && sizeof(N) == sizeof(std::int64_t))
    return std::numeric_limits<std::int64_t>::max();
  else return std::numeric_limits<N>::max();
}

/// The number that a whole text stands for. Where it is none, or does not fit into N, `Expected` is thrown with
/// `expected`, a noun such as "a count"; the caller makes an Error of it that names the option.
template <class N>
  requires std::is_arithmetic_v<N>
N number_of(std::string_view text, std::string const& expected) {
  N number{};
  char const* const end = text.data() + text.size();
  auto const [stopped, fault] = std::from_chars(text.data(), end, number);
  bool const fits = std::is_floating_point_v<N> || number <= largest<N>();  // infinity is a number
  if (fault == std::errc::result_out_of_range || (fault == std::errc{} && !fits)) {
    auto const shown = [](N value) {
      if constexpr (std::is_floating_point_v<N>) return report::formatted("%g", static_cast<double>(value));
      else return std::to_string(value);
    };
    throw Expected{expected + " from " + shown(std::numeric_limits<N>::lowest()) + " to " + shown(largest<N>())};
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
  static std::string text(N value) {
    if constexpr (std::is_same_v<N, float>) return report::formatted("%.9g", static_cast<double>(value));
    else if constexpr (std::is_floating_point_v<N>) return report::exact(static_cast<double>(value));
    else return std::to_string(value);
  }
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
    else return std::to_string(static_cast<long long>(value));
  }
  static void read(std::string_view from, E& to) {
    if constexpr (named) {
      std::string all;
      for (std::size_t i = 0; i != Names<E>::all.size(); ++i) {
        if (from == Names<E>::all[i]) return void(to = static_cast<E>(i));
        (all += all.empty() ? "" : ", ") += Names<E>::all[i];
      }
      throw Expected{"one of " + all};
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
/// "none" is nothing.
template <class T>
  requires Textual<T>
struct Value<std::optional<T>> {
  static constexpr std::string_view kind = Value<T>::kind;
  static constexpr bool bare = Value<T>::bare;
  static std::string text(std::optional<T> const& value) { return value ? Value<T>::text(*value) : "none"; }
  static void read(std::string_view from, std::optional<T>& to) {
    if (from == "none") return to.reset();
    std::optional<T> now(std::in_place, typename Initial<T>::type{});
    try {
      Value<T>::read(from, *now);
    } catch (Expected const& expected) { throw Expected{expected.what + ", or none"}; }
    to = std::move(now);
  }

 private:
  template <class U>
  struct Initial : std::type_identity<U> {};
  template <class U>
    requires requires { typename Value<U>::Initial; }
  struct Initial<U> : std::type_identity<typename Value<U>::Initial> {};
};

}  // namespace fulgurite::cli
