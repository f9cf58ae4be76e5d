#pragma once
// The lines that a process has at the bottom of its terminal, and what is written above them meanwhile.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// Whether both are the same terminal, or the same stream.
FULGURITE_COLD bool same_terminal(std::FILE* one, std::FILE* other) {
  if (one == other) return true;
  struct stat a{}, b{};
  int const first = ::fileno(one), second = ::fileno(other);
  return first >= 0 && second >= 0 && ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && S_ISCHR(a.st_mode) &&
         S_ISCHR(b.st_mode) && a.st_rdev == b.st_rdev;
}

/// A block of lines as it was last drawn. Between two drawings the cursor stands in the line above it, which is empty
/// but for `unfinished`: what somebody has printed and not yet ended by a newline.
struct DrawnBlock {
  std::FILE* stream;
  std::vector<std::string> lines{};
  std::string unfinished{};

  static constexpr char const* erase = "\r\x1b[J";  ///< from the line above the block on

  /// Each call is one write, so that nothing flickers.
  FULGURITE_COLD void write(std::string_view text) const {
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
  }
  /// The line above the block, from its beginning.
  FULGURITE_COLD std::string line_above() const {
    int const told = terminal_columns(stream);
    return "\r\x1b[K" + std::string(clipped(unfinished, told > 0 ? static_cast<std::size_t>(told) - 1 : 79));
  }
  FULGURITE_COLD void draw() const {
    std::string text = line_above() + "\n";
    // Erased before it is written: erased afterwards, a line that fills the last column would lose that column.
    for (auto const& line : lines) ((text += "\x1b[K") += line) += '\n';
    text += "\x1b[J\x1b[" + std::to_string(lines.size() + 1) + "A";
    write(unfinished.empty() ? text : text + line_above());  // what follows stands behind it
  }
};

/// Which block is drawn now. A process has one such place, since a terminal has one bottom.
struct Screen {
  std::recursive_mutex mutex{};  ///< also of whoever writes: loaders have threads that may print
  DrawnBlock* drawn = nullptr;
};
/// Never destroyed: what is printed while the program ends may still ask.
inline Screen& screen() {
  static Screen* const one = new Screen;
  return *one;
}

/// What `write` writes, whole lines, takes the place of the block, which is drawn anew below them.
template <class Write>
void write_above(DrawnBlock const& block, Write write) {
  block.write(DrawnBlock::erase);
  write();
  block.draw();
}

/// What `tell` does while a block is drawn.
FULGURITE_COLD void tell_above(std::FILE* stream, std::string_view lines) {
  std::lock_guard const one_at_a_time(screen().mutex);
  auto const write = [&] {
    std::fwrite(lines.data(), 1, lines.size(), stream);
    std::fflush(stream);
  };
  auto const* const block = screen().drawn;
  if (block && same_terminal(stream, block->stream)) write_above(*block, write);
  else write();
}

}  // namespace fulgurite::report
