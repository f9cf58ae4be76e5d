#pragma once
// What a program prints by std::cout, std::cerr and std::clog while lines are drawn on the same terminal comes out
// above them.

#include <array>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/drawn_block.hpp>

namespace fulgurite::report {

/// Stands before the buffer of one of the standard streams while a block is drawn. Whole lines go on to that buffer at
/// once, above the block. A line that has no end yet is held, and shown when the stream is flushed. A thread that has
/// begun to print when the stream is given back still finds the buffer: it lives as long as the process.
class PrintedAbove : public std::streambuf {
 public:
  PrintedAbove(std::ostream& of, std::FILE* goes_to) : of_(of), goes_to_(goes_to) {}

  /// Nothing happens to a stream that goes elsewhere, such as into a file.
  void take(DrawnBlock const& block) {
    if (taken_ || of_.rdbuf() == this || !same_terminal(goes_to_, block.stream)) return;
    behind_ = of_.rdbuf();
    taken_ = true;
    put(this);
  }
  /// Where somebody else has put a buffer before this one, it stays.
  void give_back() {
    if (!taken_) return;
    taken_ = false;
    if (of_.rdbuf() == this) put(behind_);
    if (!held_.empty()) pass_on(std::exchange(held_, {}));
  }

 protected:
  std::streamsize xsputn(char const* text, std::streamsize size) override {
    std::lock_guard const one_at_a_time(screen().mutex);
    std::string_view const more(text, static_cast<std::size_t>(size));
    auto* const block = screen().drawn;
    if (!taken_ || !block) return behind_->sputn(text, size);
    held_ += more;
    auto const end = held_.rfind('\n');
    if (end == std::string::npos) return size;
    std::string const whole = held_.substr(0, end + 1);
    held_.erase(0, end + 1);
    block->unfinished.clear();
    write_above(*block, [&] { pass_on(whole); });
    return size;
  }
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    char const one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  int sync() override {
    std::lock_guard const one_at_a_time(screen().mutex);
    auto* const block = screen().drawn;
    if (!taken_ || !block) return behind_->pubsync();
    if (held_.empty()) return 0;
    block->unfinished = shown();
    block->write(block->line_above());
    return 0;
  }

 private:
  /// Of a line without an end, what can stand in one line: nothing where it has codes for the terminal.
  std::string shown() const {
    auto const last = held_.rfind('\r');
    auto const text = held_.substr(last == std::string::npos ? 0 : last + 1);
    for (char const c : text)
      if (static_cast<unsigned char>(c) < 0x20) return {};
    return text;
  }
  void pass_on(std::string_view text) {
    behind_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
    behind_->pubsync();
  }
  /// A stream that has failed stays so.
  void put(std::streambuf* buffer) {
    auto const state = of_.rdstate();
    of_.rdbuf(buffer);
    if (state != std::ios_base::goodbit) of_.setstate(state);
  }

  std::ostream& of_;
  std::FILE* goes_to_;
  std::streambuf* behind_ = nullptr;
  bool taken_ = false;
  std::string held_{};
};

/// The three streams. Never destroyed, as they are not.
inline std::array<PrintedAbove, 3>& printed_above() {
  static auto* const all = new std::array<PrintedAbove, 3>{
      PrintedAbove(std::cout, stdout), PrintedAbove(std::cerr, stderr), PrintedAbove(std::clog, stderr)};
  return *all;
}

}  // namespace fulgurite::report
