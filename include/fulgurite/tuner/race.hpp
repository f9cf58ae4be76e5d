#pragma once
// The members of a sweep among one another: whose turn it is, who waits at a rung, and who goes on from there.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/caught_signals.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/tuner/standing.hpp>
#include <fulgurite/tuner/sweep_options.hpp>

namespace fulgurite::tune {

/// Thrown in the threads of the other members when one of them has found that the whole sweep is wrong.
struct SweepEnded : std::exception {
  char const* what() const noexcept override { return "the sweep has ended"; }
};

/// Each member has a thread of its own, and at most so many of them run at a time: a member that waits at a rung leaves
/// its turn to another one. A rung is judged when all members have reached it or ended before it, so who goes on does
/// not depend on the number of threads nor on who was faster.
class Race {
 public:
  Race(std::size_t members, std::size_t threads, SweepOptions options)
      : options_(std::move(options)), free_(threads), members_(members) {}

  // The calling thread.

  /// Waits for a free turn, which the member has from then on. False: the sweep has ended. `poll` is called again and
  /// again, without a lock.
  template <class Poll>
  bool take_turn(std::size_t member, Poll&& poll) {
    auto const lock = wait(poll, [&] { return ended_ || free_ > 0; });
    if (ended_) return false;
    --free_;
    members_[member].at = At::running;
    members_[member].began = Clock::now();
    return true;
  }
  /// Waits until no member runs or waits.
  template <class Poll>
  void wait_for_all(Poll&& poll) {
    wait(poll, [&] {
      return std::ranges::none_of(members_, [](auto const& m) { return m.at == At::running || m.at == At::waiting; });
    });
  }
  /// No member trains on from its next batch. `signal`: the one that asked for it, or 0.
  void end(int signal) {
    std::lock_guard const lock(mutex_);
    ended_ = true;
    signal_ = signal;
    changed_.notify_all();
  }
  bool ended() const { return ended_; }
  /// All members have ended: who is trained or validated from here on is not among others.
  void close() { over_ = true; }
  bool is_over() const { return over_; }
  int signal() const {
    std::lock_guard const lock(mutex_);
    return signal_;
  }
  Standing standing(std::size_t member) const {
    std::lock_guard const lock(mutex_);
    return members_[member].standing;
  }
  bool has_ended(std::size_t member) const {
    std::lock_guard const lock(mutex_);
    return members_[member].at == At::ended;
  }

  // The members' threads.

  /// Throws where the sweep has ended.
  void go_on() const { throw_if_ended(); }

  /// A member has ended that epoch, counted from 0, perhaps once more, where captured steps went back; `is_last`: its
  /// trainer goes no further. Where that is a rung it waits for the others. False: others were better. Error
  /// [fulgurite.tune.no_value] where there is nothing to judge by.
  bool epoch_ended(std::size_t member, int epoch, std::optional<double> value, bool is_last) {
    std::unique_lock lock(mutex_);
    throw_if_ended();
    auto& own = members_[member];
    own.standing.value = value;
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    own.standing.curve.resize(static_cast<std::size_t>(epoch) + 1, none);
    own.standing.curve.back() = value.value_or(none);
    if (is_last || next_rung_ == options_.rungs.size() || own.standing.epochs() != options_.rungs[next_rung_])
      return true;
    if (!value)
      throw Error("fulgurite.tune.no_value", "nobody has logged the metric by the end of epoch " +
                                                 std::to_string(own.standing.epochs()) +
                                                 ", after which a rung asks for it: log it, or validate before");
    rest(own);
    own.at = At::waiting;
    judge_if_all_are_here();
    changed_.wait(lock, [&] { return ended_ || own.at == At::out || (own.at == At::ready && free_ > 0); });
    throw_if_ended();
    if (own.at == At::out) {
      // It runs to the end of its fit, which is no more than hooks: nobody has to wait for that.
      own.at = At::running;
      own.standing.fate = Fate::left;
      own.holds_turn = false;
      own.began = Clock::now();
      return false;
    }
    --free_;
    own.at = At::running;
    own.began = Clock::now();
    return true;
  }

  /// A member's fit is over. One that has left stays so; else it has come to `fate`.
  Standing ended(std::size_t member, Fate fate, std::string why = {}) {
    std::lock_guard const lock(mutex_);
    auto& own = members_[member];
    if (own.at == At::running) rest(own);
    own.at = At::ended;
    if (own.standing.fate != Fate::left || fate == Fate::failed) own.standing.fate = fate;
    own.standing.why = std::move(why);
    judge_if_all_are_here();
    changed_.notify_all();
    return own.standing;
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class At : std::uint8_t { start, running, waiting, ready, out, ended };
  struct Member {
    Standing standing{};
    At at = At::start;
    bool holds_turn = true;
    Clock::time_point began{};
  };

  template <class Poll, class Ready>
  std::unique_lock<std::mutex> wait(Poll& poll, Ready const& ready) {
    constexpr std::chrono::milliseconds often(20);  // a signal wakes nobody
    for (;;) {
      poll();
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, often, ready)) return lock;
    }
  }

  /// Looks for a signal, too: a batch may be shorter than the time after which the calling thread looks again.
  void throw_if_ended() const {
    if (int const signal = CaughtSignals::caught()) throw Interrupted(signal);
    if (ended_) throw SweepEnded();
  }

  /// The member trains no longer, for now.
  void rest(Member& own) {
    own.standing.seconds += std::chrono::duration<double>(Clock::now() - own.began).count();
    if (std::exchange(own.holds_turn, true)) ++free_;
    changed_.notify_all();
  }

  bool is_in_the_race(Member const& m) const {
    return m.standing.rungs == next_rung_ && (m.at == At::waiting || (m.at == At::ended && completed(m)));
  }
  static bool completed(Member const& m) { return m.standing.fate == Fate::completed; }

  void judge_if_all_are_here() {
    if (ended_ || next_rung_ == options_.rungs.size()) return;
    auto const on_its_way = [](Member const& m) {
      return m.at == At::start || m.at == At::ready || (m.at == At::running && m.standing.fate != Fate::left);
    };
    if (std::ranges::any_of(members_, on_its_way)) return;
    std::vector<std::size_t> here;
    for (std::size_t i = 0; i != members_.size(); ++i)
      if (is_in_the_race(members_[i])) here.push_back(i);
    std::ranges::sort(here, [&](std::size_t a, std::size_t b) {
      auto const of_a = members_[a].standing.value, of_b = members_[b].standing.value;
      auto const mode = options_.mode.mode;
      return value_before(mode, of_a, of_b) || (a < b && !value_before(mode, of_b, of_a));
    });
    // A third of 9 is 3, though 9 times the number nearest to a third may lie below.
    auto const part = static_cast<std::size_t>(static_cast<double>(here.size()) * options_.keep + 1e-9);
    auto const kept = std::max<std::size_t>(1, part);
    ++next_rung_;
    for (std::size_t place = 0; place != here.size(); ++place) {
      auto& member = members_[here[place]];
      if (place < kept) ++member.standing.rungs;
      if (member.at == At::waiting) member.at = place < kept ? At::ready : At::out;
    }
    changed_.notify_all();
  }

  SweepOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t free_;
  std::size_t next_rung_ = 0;
  std::vector<Member> members_;
  std::atomic<bool> ended_ = false, over_ = false;
  int signal_ = 0;
};

}  // namespace fulgurite::tune
