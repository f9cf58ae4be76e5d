#pragma once
// Text that is broken between words, so that a terminal does not break it inside of one.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// The lines of a text, none wider than `columns` unless one word is, such as a path. 0: one line.
FULGURITE_COLD std::vector<std::string> wrapped_lines(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find(' ', at), text.size());
    auto const word = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && columns != 0 && display_width(line) + 1 + display_width(word) > columns)
      lines.push_back(std::exchange(line, {}));
    (line += line.empty() ? "" : " ") += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}
/// The same lines as one text; each ends with a newline.
FULGURITE_COLD std::string wrapped(std::string_view text, std::size_t columns) {
  std::string all;
  for (auto const& line : wrapped_lines(text, columns)) (all += line) += '\n';
  return all;
}

}  // namespace fulgurite::report
