#pragma once
// Text that is put together while compiling.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace fulgurite::report {

/// Takes a text while a constant is computed; without a capacity it only counts.
template <std::size_t Capacity>
struct TextBuilder {
  std::array<char, Capacity> text{};
  std::size_t size = 0;

  constexpr TextBuilder& operator<<(std::string_view more) {
    if constexpr (Capacity != 0) std::copy(more.begin(), more.end(), text.begin() + static_cast<std::ptrdiff_t>(size));
    size += more.size();
    auto const end = more.rfind('\n');
    line_ = end == more.npos ? line_ + more.size() : more.size() - end - 1;
    return *this;
  }
  /// Adds blanks up to a column of the last line, at least one.
  constexpr TextBuilder& to_column(std::size_t column) {
    do *this << " ";
    while (line_ < column);
    return *this;
  }

 private:
  std::size_t line_ = 0;  ///< characters of the line at hand
};

/// The text that `Writer<TextBuilder<...>>::build()` puts together, in exactly the memory that it needs: it is counted
/// first, then written.
template <template <class Text> class Writer>
struct ConstantText {
  static constexpr std::size_t size = Writer<TextBuilder<0>>::build().size;
  static constexpr auto built = Writer<TextBuilder<size>>::build();
  static constexpr std::string_view view{built.text.data(), size};
};

}  // namespace fulgurite::report
