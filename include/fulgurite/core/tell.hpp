#pragma once
// Lines for a person to read. Where a progress bar is drawn on the same terminal, they come out above it.

#include <atomic>
#include <cstdio>
#include <string_view>

#include <fulgurite/core/cold.hpp>

namespace fulgurite {

/// What is drawn on a terminal of this process and makes room for lines that others write; null where nothing is.
/// report::BlockOfLines sets it.
inline std::atomic<void (*)(std::FILE* stream, std::string_view lines)> writes_above{nullptr};

/// Writes lines, each of which ends with a newline: any number of them, as long as they like. What the library says
/// while a run goes on goes through here.
FULGURITE_COLD void tell(std::FILE* stream, std::string_view lines) {
  if (auto const above = writes_above.load()) above(stream, lines);
  else std::fwrite(lines.data(), 1, lines.size(), stream);
}

}  // namespace fulgurite
