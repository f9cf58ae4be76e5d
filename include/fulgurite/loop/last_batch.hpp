#pragma once
// How a pass finds out that a batch is its last: before the step, or only by asking the loader for another one.

#include <utility>

namespace fulgurite::loop {

/// Whether a batch is the last of its pass, where that is known before its step.
struct KnownEnd {
  static constexpr bool late = false;
  bool last;
  bool before_step() const { return last; }
  bool after_step() const { return last; }
};

/// The same of a loader that must not be read ahead: `after_step()` moves on to the next batch and finds out. The batch
/// at hand may be gone then. Only a limit tells before.
template <class Iterator, class Stop, class Reads>
class EndFoundLate {
 public:
  static constexpr bool late = true;
  EndFoundLate(Iterator& at, Stop const& stop, bool limit_reached, Reads const& reads)
      : at_(at), stop_(stop), known_(limit_reached), last_(limit_reached), reads_(reads) {}
  EndFoundLate(EndFoundLate const&) = delete;
  EndFoundLate& operator=(EndFoundLate const&) = delete;

  bool before_step() const { return known_ && last_; }
  bool after_step() {
    if (!std::exchange(known_, true))
      reads_.more([this]() __attribute__((always_inline)) {
        ++at_;
        last_ = !(at_ != stop_);
      });
    return last_;
  }

 private:
  Iterator& at_;
  Stop const& stop_;
  bool known_, last_;
  [[no_unique_address]] Reads reads_;
};

/// The same for a sized loader that keeps its place: its iterator moves past the last batch, too, so that its place is
/// saved as behind it.
template <class Iterator, class Reads>
class MovesPast {
 public:
  static constexpr bool late = false;
  MovesPast(Iterator& at, bool last, Reads const& reads) : at_(at), last_(last), reads_(reads) {}
  MovesPast(MovesPast const&) = delete;
  MovesPast& operator=(MovesPast const&) = delete;

  bool before_step() const { return last_; }
  bool after_step() {
    if (!std::exchange(moved_, true)) reads_.more([this]() __attribute__((always_inline)) { ++at_; });
    return last_;
  }

 private:
  Iterator& at_;
  bool last_, moved_ = false;
  [[no_unique_address]] Reads reads_;
};

}  // namespace fulgurite::loop
