#pragma once
// A FILE whose text a test can read, and the screen that a terminal would show of it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

// In a namespace, since other tests of the same program may use the same words.
namespace probe {

struct Stream {
  char* text = nullptr;
  std::size_t size = 0;
  std::size_t taken = 0;
  std::FILE* file = ::open_memstream(&text, &size);
  Stream() = default;
  Stream(Stream const&) = delete;
  ~Stream() {
    std::fclose(file);
    std::free(text);
  }
  std::string all() const {
    std::fflush(file);
    return {text, size};
  }
  /// What came since the last call.
  std::string take() {
    auto whole = all();
    return whole.substr(std::exchange(taken, whole.size()));
  }
};

/// The lines on a screen after this output: carriage return, newline, cursor up, erase to the end of the line
/// or of the screen; colours are passed over. `columns`: a line that is longer goes on in the next; 0: none does.
inline std::vector<std::string> screen(std::string_view output, std::size_t columns = 0) {
  std::vector<std::vector<std::string>> cells(1);
  std::size_t row = 0, column = 0;
  auto const next_row = [&] {
    column = 0;
    if (++row == cells.size()) cells.emplace_back();
  };
  // Behind the last column the cursor waits in it for the next character.
  auto const in_line = [&] { return columns != 0 ? std::min(column, columns - 1) : column; };
  for (std::size_t i = 0; i != output.size();) {
    if (output.substr(i, 2) == "\x1b[") {
      std::size_t number = 0;
      for (i += 2; output[i] >= '0' && output[i] <= '9'; ++i)
        number = number * 10 + static_cast<std::size_t>(output[i] - '0');
      char const code = output[i++];
      if (code == 'A') row -= std::min(row, std::max<std::size_t>(number, 1));
      if (code == 'J') cells.resize(row + 1);
      if (code == 'J' || code == 'K') cells[row].resize(std::min(cells[row].size(), in_line()));
    } else if (output[i] == '\r') {
      column = 0;
      ++i;
    } else if (output[i] == '\n') {  // as a terminal driver sends it: with a carriage return
      next_row();
      ++i;
    } else {
      std::size_t length = 1;
      while (i + length != output.size() && (static_cast<unsigned char>(output[i + length]) & 0xC0U) == 0x80U) ++length;
      if (columns != 0 && column == columns) next_row();
      cells[row].resize(std::max(cells[row].size(), column + 1), " ");
      cells[row][column++] = std::string(output.substr(i, length));
      i += length;
    }
  }
  std::vector<std::string> lines;
  for (auto const& line : cells) {
    lines.emplace_back();
    for (auto const& cell : line) lines.back() += cell;
  }
  return lines;
}

}  // namespace probe
using namespace probe;
