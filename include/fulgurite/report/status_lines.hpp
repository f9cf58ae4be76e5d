#pragma once
// One or two lines at the bottom of a terminal that are written again and again.

#include <cstdio>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

/// Draws one or two lines at the bottom of a terminal and redraws them. Each call writes once, in one piece. Between
/// calls the cursor stays in the upper line.
class StatusLines {
 public:
  explicit StatusLines(std::FILE* stream) : stream_(stream) {}

  /// Erases a line before writing it: erased afterwards, a line that fills the last column would lose that column.
  FULGURITE_COLD void show(std::string_view upper, std::string_view lower = {}) {
    std::string text = erase + std::string(upper);
    if (!lower.empty()) text += "\n" + std::string(erase) + std::string(lower) + up;
    else text += forget_lower();
    write(text);
    upper_ = true;
    lower_ = !lower.empty();
  }
  /// Removes the lower line.
  void wipe_lower() {
    if (lower_) write(forget_lower());
    lower_ = false;
  }
  /// Removes both lines.
  void wipe() {
    if (upper_) write(forget_lower() + erase);
    upper_ = lower_ = false;
  }
  /// Writes this text in place of the upper line, and leaves it there for good.
  void keep(std::string_view line) {
    write(forget_lower() + erase + std::string(line) + "\n");
    upper_ = lower_ = false;
  }
  /// Leaves both lines as they are; what is written next begins on a line of its own.
  void close() {
    if (upper_) write(lower_ ? "\n\n" : "\n");
    upper_ = lower_ = false;
  }
  void write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stream_);
    std::fflush(stream_);
  }

 private:
  static constexpr char const* erase = "\r\x1b[K";
  static constexpr char const* up = "\x1b[A";

  std::string forget_lower() const { return lower_ ? std::string("\n") + erase + up : std::string{}; }

  std::FILE* stream_;
  bool upper_ = false;
  bool lower_ = false;
};

}  // namespace fulgurite::report
