#pragma once
// The members of a sweep among one another: whose turn it is, who waits at a rung, and who goes on from there.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::tune {

// Where a member of a sweep stands: its curve, how it ended, and who is before whom.

/// How a member ended.
enum class Fate : std::uint8_t {
  completed,    ///< its trainer ended the fit
  left,         ///< at a rung others were better
  interrupted,  ///< the sweep was ended by a signal, while it trained or waited
  failed,       ///< by an exception
  not_started,  ///< the sweep ended first
};

/// As tables show it.
constexpr std::string_view name_of(Fate fate) {
  switch (fate) {
  case Fate::completed: return "completed";
  case Fate::left: return "left";
  case Fate::interrupted: return "interrupted";
  case Fate::failed: return "failed";
  default: return "not started";
  }
}

/// What is known of a member.
struct Standing {
  Fate fate = Fate::not_started;
  std::size_t rungs = 0;             ///< at how many it was among those that go on
  std::optional<double> value = {};  ///< the metric, as of its last epoch
  std::vector<double> curve = {};    ///< the metric after each of its epochs; NaN before it had a value
  double seconds = 0;                ///< in which it trained
  std::string why = {};              ///< what the exception said, where it failed

  int epochs() const;
};

/// Whether value `a` is before `b`: none is last, and so is what is no number.
bool value_before(Mode mode, std::optional<double> a, std::optional<double> b);

/// Whether `a` comes before `b` in a table. Members that failed or never began come last; then who came further comes
/// first, since a value after 9 epochs does not compare with one after 1; then who was not interrupted; then the
/// value decides.
bool before(Mode mode, Standing const& a, Standing const& b);

// What a sweep can be told, and what is refused of it before anything is made.

/// Which way the metric gets better. A sweep that is wrong about it keeps the worst members, so it has to be said.
struct Direction {
  Mode mode;

  constexpr Direction(Mode towards) : mode(towards) {}
  template <bool is_said = false>
  constexpr Direction() : mode(Mode::min) {
    static_assert(is_said, "[fulgurite.tune.direction] a sweep cannot know whether a low value is a good one: say "
                           ".mode = Mode::min or .mode = Mode::max");
  }
};

/// An aggregate: `{.mode = Mode::max, .rungs = {1, 3}, .keep = 1.0 / 3}`.
struct SweepOptions {
  Direction mode;               ///< of the metric
  std::vector<int> rungs = {};  ///< after so many epochs, all wait for one another, and the best `keep` of them go on
  double keep = 1.0 / 3;        ///< above 0 and below 1; the number that goes on is rounded down, and at least 1
  int threads = 0;              ///< members that train at a time, each on one core; 0: as many as there are cores
  std::uint64_t seed = 0;       ///< of each member's random numbers: of all the same
  bool verbose = false;         ///< a line on stderr when a member ends
};

/// Error [fulgurite.tune.rungs], [fulgurite.tune.keep] or [fulgurite.tune.threads] for options that mean nothing.
void check(SweepOptions const& options);

/// How many members train at a time.
std::size_t threads_of(SweepOptions const& options, std::size_t members);

/// Thrown in the threads of the other members when one of them has found that the whole sweep is wrong.
struct SweepEnded : std::exception {
  char const* what() const noexcept override { return "the sweep has ended"; }
};

/// Each member has a thread of its own, and at most so many of them run at a time: a member that waits at a rung leaves
/// its turn to another one. A rung is judged when all members have reached it or ended before it, so who goes on does
/// not depend on the number of threads nor on who was faster.
class Race {
 public:
  Race(std::size_t members, std::size_t threads, SweepOptions options);

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
  void end(int signal);
  bool ended() const { return ended_; }
  /// All members have ended: who is trained or validated from here on is not among others.
  void close() { over_ = true; }
  bool is_over() const { return over_; }
  int signal() const;
  Standing standing(std::size_t member) const;
  bool has_ended(std::size_t member) const;

  // The members' threads.

  /// Throws where the sweep has ended.
  void go_on() const { throw_if_ended(); }

  /// A member has ended that epoch, counted from 0, perhaps once more, where captured steps went back; `is_last`: its
  /// trainer goes no further. Where that is a rung it waits for the others. False: others were better. Error
  /// [fulgurite.tune.no_value] where there is nothing to judge by.
  bool epoch_ended(std::size_t member, int epoch, std::optional<double> value, bool is_last);

  /// A member's fit is over. One that has left stays so; else it has come to `fate`.
  Standing ended(std::size_t member, Fate fate, std::string why = {});

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
  void throw_if_ended() const;

  /// The member trains no longer, for now.
  void rest(Member& own);

  bool is_in_the_race(Member const& m) const;
  static bool completed(Member const& m);

  void judge_if_all_are_here();

  SweepOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t free_;
  std::size_t next_rung_ = 0;
  std::vector<Member> members_;
  std::atomic<bool> ended_ = false, over_ = false;
  int signal_ = 0;
};

// The callback by which a sweep sees a member's metric, lets it wait and ends it.

/// A sweep hands it to the function that makes a member, which puts it among the callbacks of the member's trainer.
/// `Probe{Net::val_accuracy}` by itself does nothing: with it a member is made and trained alone, by the same function.
template <Watchable M>
class Probe {
 public:
  using Hooks = Implements<hook::on_train_batch_end, hook::on_validation_batch_end, hook::on_train_epoch_end>;
  using Watches = MetricTypes<M>;
  using Stateless = ByChoice;  // a sweep does not go on in another process
  static constexpr Order order = Order::checkpoint;
  static constexpr std::string_view reads = "the sweep's metric", writes = "the end of training";

  explicit Probe(M metric) : metric_(metric) {}
  Probe(M metric, std::shared_ptr<Race> race, std::size_t member)
      : metric_(metric), race_(std::move(race)), member_(member) {}

  /// The member's place in the space, from 0: for a folder of its own, say.
  std::size_t member() const { return member_; }

  void on_train_batch_end() { go_on(); }
  void on_validation_batch_end() { go_on(); }
  Stop on_train_epoch_end(auto& ctx) {
    if (!race_ || race_->is_over() || !watch::in_fit(ctx)) return Stop{false};
    auto const value = ctx.value(metric_);
    auto const last = ctx.options().max_epochs;
    bool const is_last = last && *last >= 0 && ctx.current_epoch() + 1 >= *last;
    return Stop{!race_->epoch_ended(member_, ctx.current_epoch(), value, is_last || ctx.stop_requested())};
  }

 private:
  void go_on() const {
    if (race_ && !race_->is_over()) race_->go_on();
  }

  [[no_unique_address]] M metric_;
  std::shared_ptr<Race> race_ = nullptr;  // the trainer of the best member outlives the sweep
  std::size_t member_ = 0;
};

}  // namespace fulgurite::tune

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/tuner/race.ipp>
#endif
