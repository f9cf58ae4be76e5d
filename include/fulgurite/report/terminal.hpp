#pragma once
// What is known about the place where output goes: whether it is a person's terminal, and how wide it is.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

/// Whether the stream is a terminal, to which control codes may be written: one that says TERM=dumb is none.
inline bool is_terminal(std::FILE* stream) {
  int const descriptor = ::fileno(stream);
  char const* const kind = std::getenv("TERM");
  return descriptor >= 0 && ::isatty(descriptor) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

/// The width of the terminal behind the stream, in columns; 0 where it is not known.
inline int terminal_columns(std::FILE* stream) {
  winsize size{};
  int const descriptor = ::fileno(stream);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// The width to keep to: the one that is asked for, else the terminal's, also of one that says TERM=dumb. 0, no limit:
/// in a file, or where it is not known.
FULGURITE_COLD std::size_t text_columns(std::FILE* stream, int asked) {
  return static_cast<std::size_t>(std::max(0, asked > 0 ? asked : terminal_columns(stream)));
}

/// Its height in lines; 0 where it is not known.
inline int terminal_lines(std::FILE* stream) {
  winsize size{};
  int const descriptor = ::fileno(stream);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/// The width of UTF-8 text, counting one column for each code point: right for our own output and for Latin names.
inline std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return width;
}

/// The beginning of the text that fits into `columns` columns; no character is cut in half.
FULGURITE_COLD std::string_view clipped(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t width = 0; at != text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U && width++ == columns) break;
  return text.substr(0, at);
}

}  // namespace fulgurite::report
