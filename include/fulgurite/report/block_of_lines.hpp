#pragma once
// Lines at the bottom of a terminal that are written again and again.

#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/tell.hpp>
#include <fulgurite/report/drawn_block.hpp>
#include <fulgurite/report/printed_above.hpp>

namespace fulgurite::report {

/// Draws lines and redraws them in their place. From the first show() until they are left, wiped or kept, what others
/// say comes out above them: all that goes through `tell`, and with `redirect` what the program prints by std::cout,
/// std::cerr and std::clog on the same terminal. Of what comes by printf, or from another process, one line at a time
/// does. Of several blocks in a process the first one that is drawn has this; the others are drawn beside it.
class BlockOfLines {
 public:
  static constexpr int beside = 2;  ///< lines of the screen that are not the block's: the one above, the one below

  explicit BlockOfLines(std::FILE* stream, bool redirect = true)
      : block_(new DrawnBlock{.stream = stream}), redirect_(redirect) {}
  /// A copy has drawn nothing yet.
  BlockOfLines(BlockOfLines const& other) : BlockOfLines(other.block_->stream, other.redirect_) {}
  BlockOfLines(BlockOfLines&&) noexcept = default;
  BlockOfLines& operator=(BlockOfLines other) noexcept {
    std::swap(block_, other.block_);
    std::swap(redirect_, other.redirect_);
    return *this;
  }
  ~BlockOfLines() {
    if (block_) leave();
  }

  /// Lines are to be no wider than the terminal. One that the block had, and has no more, is erased.
  void show(std::vector<std::string> lines) {
    std::lock_guard const one_at_a_time(screen().mutex);
    block_->lines = std::move(lines);
    if (screen().drawn == nullptr) begin();
    block_->draw();
  }
  /// Only the first so many lines stay.
  void shorten(std::size_t lines) {
    if (block_->lines.size() <= lines) return;
    auto fewer = block_->lines;
    fewer.resize(lines);
    show(std::move(fewer));
  }
  /// Removes the block.
  void wipe() {
    if (!block_->lines.empty()) end("");
  }
  /// Writes this text in place of the block, and leaves it there for good.
  void keep(std::string_view line) { end(std::string(line) + "\n"); }
  /// Leaves the block as it is; what is written next begins below.
  void leave() {
    std::string text;
    for (auto const& line : block_->lines) (text += line) += '\n';
    if (!text.empty()) end(text);
  }
  void write(std::string_view text) { block_->write(text); }

 private:
  void begin() {
    screen().drawn = block_.get();
    if (redirect_)
      for (auto& stream : printed_above()) stream.take(*block_);
    writes_above = &tell_above;
  }
  void end(std::string const& instead) {
    std::lock_guard const one_at_a_time(screen().mutex);
    write(DrawnBlock::erase + instead);
    block_->lines.clear();
    block_->unfinished.clear();
    if (screen().drawn != block_.get()) return;
    writes_above = nullptr;
    for (auto& stream : printed_above()) stream.give_back();
    screen().drawn = nullptr;
  }

  std::unique_ptr<DrawnBlock> block_;
  bool redirect_;
};

}  // namespace fulgurite::report
