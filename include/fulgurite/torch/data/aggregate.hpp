#pragma once
// The fields of a plain struct that gives no help: they are counted by brace initialization, and named by structured
// bindings.

#include <cstddef>
#include <type_traits>
#include <utility>

namespace fulgurite::aggregate {

inline constexpr std::size_t most_fields = 12;

/// Converts to whatever type a field has. The conversion is const, so that a converting constructor of the field (as
/// std::optional's) is preferred to it.
struct Anything {
  template <class T>
  operator T() const;  // declared only
};

/// Converts to a base class of T alone. Tells whether an aggregate has bases, through which structured bindings cannot
/// see.
template <class T>
struct AnyBaseOf {
  template <class B>
    requires(std::is_base_of_v<B, T> && !std::is_same_v<B, T>)
  operator B() const;
};

/// A type that no field takes, except one that takes everything, such as std::any.
struct Unrelated {};

template <std::size_t>
using Any = Anything;

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{Any<I>{}...}; };
}

/// Whether braces fit around the middle initializers: `T{before..., {inside...}, after...}`.
template <class T, std::size_t... B, std::size_t... I, std::size_t... A>
consteval bool takes_nested(std::index_sequence<B...>, std::index_sequence<I...>, std::index_sequence<A...>) {
  return requires { T{Any<B>{}..., {Any<I>{}...}, Any<A>{}...}; };
}

/// How many initializers T takes. Elements of an array member count one by one, since braces may be left out. A result
/// of one more than the most that is looked for means: too many.
template <class T, std::size_t N = most_fields + 1>
consteval std::size_t initializers() {
  if constexpr (N == 0) return 0;
  else if constexpr (takes<T>(std::make_index_sequence<N>{})) return N;
  else return initializers<T, N - 1>();
}

/// Whether an array member of K elements begins at initializer I: braces around K of them fit, and leave room for
/// exactly the rest.
template <class T, std::size_t I, std::size_t K, std::size_t N>
consteval bool array_at() {
  constexpr auto before = std::make_index_sequence<I>{};
  constexpr auto inside = std::make_index_sequence<K>{};
  return takes_nested<T>(before, inside, std::make_index_sequence<N - I - K>{}) &&
         !takes_nested<T>(before, inside, std::make_index_sequence<N - I - K + 1>{});
}

template <class T, std::size_t N, std::size_t I = 0, std::size_t K = 2>
consteval bool has_array() {
  if constexpr (I + 2 > N) return false;
  else if constexpr (I + K > N) return has_array<T, N, I + 1, 2>();
  else if constexpr (array_at<T, I, K, N>()) return true;
  else return has_array<T, N, I, K + 1>();
}

template <class T>
consteval bool has_base() {
  return requires { T{AnyBaseOf<T>{}}; } && !requires { T{Unrelated{}}; };
}

template <class T>
consteval std::size_t count() {
  constexpr std::size_t n = initializers<T>();
  if constexpr (n == 0 || n > most_fields) return 0;
  else if constexpr (has_base<T>() || has_array<T, n>()) return 0;
  else return n;
}

/// The number of fields of a struct that can be looked into; 0 for all other types: those that are no aggregate, have
/// base classes or array members, or too many fields.
template <class T>
inline constexpr std::size_t fields = [] {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T>) return count<T>();
  else return std::size_t{0};
}();

/// f(field...) with all fields of the object, in order; without any if the type cannot be looked into.
template <class T, class F>
constexpr decltype(auto) with_fields(T& object, F&& f) {
  constexpr std::size_t n = fields<std::remove_const_t<T>>;
  // clang-format off
  if constexpr (n == 0) { return f(); }
  else if constexpr (n == 1) { auto& [a] = object; return f(a); }
  else if constexpr (n == 2) { auto& [a, b] = object; return f(a, b); }
  else if constexpr (n == 3) { auto& [a, b, c] = object; return f(a, b, c); }
  else if constexpr (n == 4) { auto& [a, b, c, d] = object; return f(a, b, c, d); }
  else if constexpr (n == 5) { auto& [a, b, c, d, e] = object; return f(a, b, c, d, e); }
  else if constexpr (n == 6) { auto& [a, b, c, d, e, g] = object; return f(a, b, c, d, e, g); }
  else if constexpr (n == 7) { auto& [a, b, c, d, e, g, h] = object; return f(a, b, c, d, e, g, h); }
  else if constexpr (n == 8) { auto& [a, b, c, d, e, g, h, i] = object; return f(a, b, c, d, e, g, h, i); }
  else if constexpr (n == 9) { auto& [a, b, c, d, e, g, h, i, j] = object; return f(a, b, c, d, e, g, h, i, j); }
  else if constexpr (n == 10) { auto& [a, b, c, d, e, g, h, i, j, k] = object; return f(a, b, c, d, e, g, h, i, j, k); }
  // clang-format on
  else if constexpr (n == 11) {
    auto& [a, b, c, d, e, g, h, i, j, k, l] = object;
    return f(a, b, c, d, e, g, h, i, j, k, l);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m] = object;
    return f(a, b, c, d, e, g, h, i, j, k, l, m);
  }
}

}  // namespace fulgurite::aggregate
