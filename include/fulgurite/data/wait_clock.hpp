#pragma once
// How long a loop waits for the batches of a pass, measured where they are handed over.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>

#include <fulgurite/concept/waited.hpp>

namespace fulgurite::data {

/// Two readings of the clock for each wait that is measured, and two of the process's time for each pass.
class WaitClock {
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

 public:
  void begin() {
    *this = WaitClock();
    began_ = Clock::now();
    processor_began_ = std::clock();
    begun_ = true;
  }
  /// Runs what the loop has to wait for.
  auto waiting(auto&& work) { return counted(work, 1); }
  /// The same for work of every batch: the first 16 are measured, then one of 16, in the place of all.
  auto sampled(auto&& work) {
    if (++batches_ <= every) return counted(work, 1);
    return batches_ % every == 0 ? counted(work, every) : work();
  }
  /// The last batch was handed over; what follows is no part of the pass.
  void end() {
    ended_ = Clock::now();
    processor_ended_ = std::clock();
    over_ = true;
  }

  Waited so_far(int workers) const {
    if (!begun_) return {.workers = workers};
    double const pass = since(began_, over_ ? ended_ : Clock::now());
    double const processor = static_cast<double>((over_ ? processor_ended_ : std::clock()) - processor_began_) /
                             static_cast<double>(CLOCKS_PER_SEC);
    return {
        .seconds = std::min(seconds_, pass), .pass = pass, .busy = pass > 0 ? processor / pass : 0, .workers = workers};
  }

 private:
  static constexpr std::size_t every = 16;

  auto counted(auto&& work, std::size_t times) {
    struct Span {
      WaitClock& clock;
      double times;
      Clock::time_point from = Clock::now();
      ~Span() { clock.seconds_ += times * since(from, Clock::now()); }
    } const span{*this, static_cast<double>(times)};
    return work();
  }

  Clock::time_point began_{}, ended_{};
  std::clock_t processor_began_ = 0, processor_ended_ = 0;
  double seconds_ = 0;
  std::size_t batches_ = 0;  // of those that are sampled
  bool begun_ = false, over_ = false;
};

}  // namespace fulgurite::data
