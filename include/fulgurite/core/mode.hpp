#pragma once
// Which way a metric gets better.

#include <cstdint>

namespace fulgurite {

/// Which way a metric gets better. The default is `min` everywhere and is never guessed from a name: for an accuracy
/// say Mode::max.
enum class Mode : std::uint8_t { min, max };

}  // namespace fulgurite
