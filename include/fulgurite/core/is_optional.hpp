#pragma once
// Whether a type is a std::optional.

#include <optional>

namespace fulgurite {

/// `T` is a std::optional, of whatever.
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

}  // namespace fulgurite
