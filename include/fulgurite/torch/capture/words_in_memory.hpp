#pragma once
// What words in memory may be, as far as their values tell: an address, or a vector that has grown.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch::capture {

inline constexpr std::size_t bytes_of_word = sizeof(std::uintptr_t);

/// Whether these bytes, a word or less, are a number in the range in which Linux puts a program's memory.
FULGURITE_COLD bool may_be_address(char const* from, std::size_t size) {
  std::uintptr_t value = 0;
  std::memcpy(&value, from, size);
  constexpr std::uintptr_t one = 1;
  return (value >= 4096 && value < one << 32U) || (value >= one << 44U && value < one << 48U);
}

/// Whether byte `i` of these `size` bytes lies in a std::vector that has as many elements as before or more, and has
/// moved to more memory. A vector is three pointers: begin, end, and the end of its memory, as in all common libraries.
FULGURITE_COLD bool is_of_grown_vector(char const* now, char const* before, std::size_t size, std::size_t i) {
  auto const at = [](char const* from) {
    std::uintptr_t value = 0;
    std::memcpy(&value, from, bytes_of_word);
    return value;
  };
  for (std::size_t back = 0; back != 3 && i / bytes_of_word >= back; ++back) {
    std::size_t const first = (i / bytes_of_word - back) * bytes_of_word;
    if (first + 3 * bytes_of_word > size) continue;
    std::uintptr_t const was[] = {at(before + first), at(before + first + bytes_of_word),
                                  at(before + first + 2 * bytes_of_word)};
    std::uintptr_t const is[] = {at(now + first), at(now + first + bytes_of_word), at(now + first + 2 * bytes_of_word)};
    if (was[0] <= was[1] && was[1] <= was[2] && is[0] != 0 && is[0] < is[1] && is[1] <= is[2] &&
        is[1] - is[0] >= was[1] - was[0] && is[2] - is[0] > was[2] - was[0] && is[2] - is[0] < std::uintptr_t{1} << 40U)
      return true;
  }
  return false;
}

}  // namespace fulgurite::libtorch::capture
