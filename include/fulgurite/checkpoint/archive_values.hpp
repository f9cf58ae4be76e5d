#pragma once
// Which types of the standard library an archive can save: those that it takes apart into entries.

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
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
}  // namespace archive

}  // namespace fulgurite
