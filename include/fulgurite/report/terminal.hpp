#pragma once
// What is known of the place where output goes: is a person's terminal there, and how wide is it.

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace fulgurite::report {

/// Control codes may be written to it.
inline bool is_terminal(std::FILE* stream) {
  int const descriptor = ::fileno(stream);
  return descriptor >= 0 && ::isatty(descriptor) == 1;
}

/// Columns of the terminal behind the stream, 0 where that is not known.
inline int terminal_columns(std::FILE* stream) {
  winsize size{};
  int const descriptor = ::fileno(stream);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// Code points of UTF-8 text, each counted as one column: right for our own output and for Latin names.
inline std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return width;
}

/// At most `columns` columns of it, never half a character.
inline std::string_view clipped(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t width = 0; at != text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U && width++ == columns) break;
  return text.substr(0, at);
}

}  // namespace fulgurite::report
