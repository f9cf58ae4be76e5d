#pragma once
// A string literal as a template argument: the name of a metric, of a loader.

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace fulgurite {

/// Structural, so that `Metric<"val/loss">` is a type of its own. Prose never travels in one: clang prints it as
/// numbers.
template <std::size_t N>
struct FixedString {
  char text[N]{};

  consteval FixedString(char const (&literal)[N]) { std::copy_n(literal, N, text); }  // implicit: Metric<"name">
  constexpr std::string_view view() const { return {text, N - 1}; }
};

}  // namespace fulgurite
