#pragma once
// Several lines at the bottom of a terminal that are written again and again.

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

/// Draws a block of lines and redraws it in its place. Each call writes once, in one piece, so that nothing flickers.
/// Between calls the cursor stands in an empty line above the block: what others print fills that line and stays, since
/// the block is drawn anew beneath it.
class BlockOfLines {
 public:
  static constexpr int beside = 2;  ///< lines of the screen that are not the block's: the empty one, the one below

  explicit BlockOfLines(std::FILE* stream) : stream_(stream) {}

  /// Lines are to be no wider than the terminal. One that the block had, and has no more, is erased.
  FULGURITE_COLD void show(std::vector<std::string> const& lines) {
    std::string text = "\r\x1b[K\n";
    // Erased before it is written: erased afterwards, a line that fills the last column would lose that column.
    for (auto const& line : lines) ((text += "\x1b[K") += line) += '\n';
    drawn_ = lines.size() + 1;
    text += "\x1b[J\x1b[" + std::to_string(drawn_) + "A";
    write(text);
  }
  /// Leaves the block as it is; what is written next begins below.
  void leave() {
    if (drawn_ != 0) write(std::string(drawn_, '\n'));
    drawn_ = 0;
  }
  void write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stream_);
    std::fflush(stream_);
  }

 private:
  std::FILE* stream_;
  std::size_t drawn_ = 0;
};

}  // namespace fulgurite::report
