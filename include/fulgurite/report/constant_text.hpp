#pragma once
// Text that the compiler puts together.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace fulgurite::report {

/// Grows up to its capacity while a constant is computed; one character more does not compile.
template <std::size_t Capacity>
struct TextBuilder {
  std::array<char, Capacity> text{};
  std::size_t size = 0;

  constexpr TextBuilder& operator<<(std::string_view more) {
    std::copy(more.begin(), more.end(), text.begin() + static_cast<std::ptrdiff_t>(size));
    size += more.size();
    return *this;
  }
  /// Blanks up to a column of the line at hand, at least one.
  constexpr TextBuilder& to_column(std::size_t column) {
    std::size_t begin = size;
    while (begin != 0 && text[begin - 1] != '\n') --begin;
    do *this << " ";
    while (size - begin < column);
    return *this;
  }
};

/// The text of a consteval builder function, in exactly the memory that it needs.
template <auto Build>
struct ConstantText {
  static constexpr auto built = Build();
  static constexpr auto exact = [] {
    std::array<char, built.size> chars{};
    std::copy_n(built.text.begin(), built.size, chars.begin());
    return chars;
  }();
  static constexpr std::string_view view{exact.data(), exact.size()};
};

}  // namespace fulgurite::report
