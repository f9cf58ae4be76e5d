#pragma once
// Which types of the standard library an archive can save: those that it takes apart into entries.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/is_optional.hpp>

namespace fulgurite {

namespace archive {
using fulgurite::is_optional;
template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_duration = false;
template <class R, class P>
inline constexpr bool is_duration<std::chrono::duration<R, P>> = true;
template <class V>
inline constexpr bool archivable = false;

/// What is saved as one number, whatever its own type: truth values, integers, enumerations, durations by their count,
/// numbers with a point.
template <class V>
inline constexpr bool is_scalar =
    std::is_integral_v<V> || std::is_enum_v<V> || std::is_same_v<V, float> || std::is_same_v<V, double>;
template <class R, class P>
inline constexpr bool is_scalar<std::chrono::duration<R, P>> = is_scalar<R>;
/// An integer is unsigned where it is too large for the other type.
using Scalar = std::variant<bool, std::int64_t, std::uint64_t, double>;

template <class V>
Scalar scalar(V value) {
  if constexpr (is_duration<V>) return scalar(value.count());
  else if constexpr (std::is_enum_v<V>) return scalar(static_cast<std::underlying_type_t<V>>(value));
  else if constexpr (std::is_same_v<V, bool>) return value;
  else if constexpr (std::is_floating_point_v<V>) return static_cast<double>(value);
  else if constexpr (std::is_unsigned_v<V>) {
    auto const wide = static_cast<std::uint64_t>(value);
    if (!std::in_range<std::int64_t>(wide)) return wide;
    return static_cast<std::int64_t>(wide);
  } else return static_cast<std::int64_t>(value);
}

/// Which numbers a type takes, and one of them as it is read: all 64 bits of an integer or of a truth value, else
/// `real`.
struct ScalarKind {
  enum Sort : std::uint8_t { truth, integer, real } sort;
  std::int64_t least = 0;
  std::uint64_t most = 0;
};
struct ReadScalar {
  std::uint64_t bits = 0;
  double real = 0;
};

template <class V>
constexpr ScalarKind scalar_kind() {
  if constexpr (is_duration<V>) return scalar_kind<typename V::rep>();
  else if constexpr (std::is_enum_v<V>) return scalar_kind<std::underlying_type_t<V>>();
  else if constexpr (std::is_same_v<V, bool>) return {ScalarKind::truth};
  else if constexpr (std::is_floating_point_v<V>) return {ScalarKind::real};
  else
    return {ScalarKind::integer, static_cast<std::int64_t>(std::numeric_limits<V>::min()),
            static_cast<std::uint64_t>(std::numeric_limits<V>::max())};
}
template <class V>
V from_scalar(ReadScalar const& read) {
  if constexpr (is_duration<V>) return V(from_scalar<typename V::rep>(read));
  else if constexpr (std::is_floating_point_v<V>) return static_cast<V>(read.real);
  else return static_cast<V>(read.bits);
}
}  // namespace archive

}  // namespace fulgurite
