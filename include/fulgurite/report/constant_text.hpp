#pragma once
// Text that is put together while compiling.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace fulgurite::report {

/// Takes a text while a constant is computed; without memory it only counts. No template, so that what writes is
/// compiled once for both.
struct TextBuilder {
  char* text;
  std::size_t size = 0;

  constexpr explicit TextBuilder(char* memory = nullptr) : text(memory) {}

  constexpr TextBuilder& operator<<(std::string_view more) {
    if (text != nullptr) std::copy(more.begin(), more.end(), text + size);
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

/// The text that `Writer::build(TextBuilder)` puts together, in exactly the memory that it needs: it is counted first,
/// then written.
template <class Writer>
struct ConstantText {
  static constexpr std::size_t size = Writer::build(TextBuilder()).size;
  static constexpr auto built = [] {
    std::array<char, size> text{};
    Writer::build(TextBuilder(text.data()));
    return text;
  }();
  static constexpr std::string_view view{built.data(), size};
};

}  // namespace fulgurite::report
