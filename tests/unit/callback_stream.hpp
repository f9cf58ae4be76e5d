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
/// or of the screen.
inline std::vector<std::string> screen(std::string_view output) {
  std::vector<std::vector<std::string>> cells(1);
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i != output.size();) {
    if (output.substr(i, 3) == "\x1b[K") {
      cells[row].resize(std::min(cells[row].size(), column));
      i += 3;
    } else if (output.substr(i, 3) == "\x1b[J") {
      cells.resize(row + 1);
      cells[row].resize(std::min(cells[row].size(), column));
      i += 3;
    } else if (output.substr(i, 2) == "\x1b[") {  // so many lines up
      std::size_t up = 0;
      for (i += 2; output[i] != 'A'; ++i) up = up * 10 + static_cast<std::size_t>(output[i] - '0');
      row -= std::min(row, std::max<std::size_t>(up, 1));
      ++i;
    } else if (output[i] == '\r') {
      column = 0;
      ++i;
    } else if (output[i] == '\n') {  // as a terminal driver sends it: with a carriage return
      column = 0;
      if (++row == cells.size()) cells.emplace_back();
      ++i;
    } else {
      std::size_t length = 1;
      while (i + length != output.size() && (static_cast<unsigned char>(output[i + length]) & 0xC0U) == 0x80U) ++length;
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
