#pragma once
// One or two lines at the bottom of a terminal that are written again and again.

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

/// Draws one or two lines at the bottom of a terminal and redraws them. Each call writes once, in one piece. Between
/// calls the cursor stands in an empty line above them: a line that others print fills that one and stays, since ours
/// are drawn anew beneath it.
class StatusLines {
 public:
  explicit StatusLines(std::FILE* stream) : stream_(stream) {}

  /// Erases a line before writing it: erased afterwards, a line that fills the last column would lose that column.
  FULGURITE_COLD void show(std::string_view upper, std::string_view lower = {}) {
    std::vector<std::string> lines{std::string(upper)};
    if (!lower.empty()) lines.emplace_back(lower);
    shown_ = std::move(lines);
    std::string text = "\r\x1b[K\n";
    for (auto const& line : shown_) ((text += "\x1b[K") += line) += '\n';
    text += "\x1b[J\x1b[" + std::to_string(shown_.size() + 1) + "A";
    write(text);
  }
  /// Removes the lower line.
  void wipe_lower() {
    if (shown_.size() == 2) show(shown_[0]);
  }
  /// Removes both lines.
  void wipe() {
    if (!shown_.empty()) write(erase);
    shown_.clear();
  }
  /// Writes this text in place of both lines, and leaves it there for good.
  void keep(std::string_view line) {
    write(std::string(erase).append(line).append("\n"));
    shown_.clear();
  }
  /// Leaves both lines as they are; what is written next begins on a line of its own.
  FULGURITE_COLD void close() {
    std::string text;
    for (auto const& line : shown_) ((text += text.empty() ? erase : "") += line) += '\n';
    if (!text.empty()) write(text);
    shown_.clear();
  }
  void write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stream_);
    std::fflush(stream_);
  }

 private:
  static constexpr char const* erase = "\r\x1b[J";  ///< from the empty line on

  std::FILE* stream_;
  std::vector<std::string> shown_{};
};

}  // namespace fulgurite::report
