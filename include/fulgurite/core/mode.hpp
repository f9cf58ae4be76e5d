#pragma once
// Which way a metric gets better.

#include <concepts>
#include <cstdint>
#include <string_view>

namespace fulgurite {

/// Which way a metric gets better. The default is `min` everywhere and is never guessed from a name: for an accuracy
/// say Mode::max.
enum class Mode : std::uint8_t { min, max };

/// Where options have a Mode: one is made of it, and is one.
struct ModeOption {
  Mode mode;

  constexpr ModeOption(Mode which) : mode(which) {}
  /// Refused: a text could be misspelt.
  template <std::convertible_to<std::string_view> Text>
  ModeOption(Text const&) {
    constexpr bool is_text = std::convertible_to<Text, std::string_view>;
    static_assert(!is_text, "[fulgurite.metric.mode] which way a metric gets better is a constant, not a text: write "
                            ".mode = Mode::max or .mode = Mode::min");
  }
  constexpr operator Mode() const { return mode; }
};

}  // namespace fulgurite
