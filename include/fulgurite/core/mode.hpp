#pragma once
// Which way a metric gets better.

#include <concepts>
#include <cstdint>
#include <string_view>

namespace fulgurite {

/// Which way a metric gets better. The default is `min` everywhere and is never guessed from a name: for an accuracy
/// say Mode::max.
struct Mode {
  enum Way : std::uint8_t { min, max };
  Way way = min;

  constexpr Mode(Way which) : way(which) {}
  /// Refused: a text could be misspelt.
  template <std::convertible_to<std::string_view> Text>
  Mode(Text const&) {
    constexpr bool is_text = std::convertible_to<Text, std::string_view>;
    static_assert(!is_text, "[fulgurite.metric.mode] which way a metric gets better is a constant, not a text: write "
                            ".mode = Mode::max or .mode = Mode::min");
  }
  constexpr operator Way() const { return way; }
};

}  // namespace fulgurite
