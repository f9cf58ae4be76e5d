#pragma once
// The scheduling of a sweep's members: which ones run, wait at a rung, and continue from there.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
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

// The standing of a sweep's member: its curve, how it ended, and how it ranks.

/// How a member ended.
enum class Fate : std::uint8_t {
  completed,    ///< its fit ended by itself
  left,         ///< stopped at a rung, where others were better
  interrupted,  ///< a signal ended the sweep while the member trained or waited
  failed,       ///< ended by an exception
  not_started,  ///< the sweep ended before the member began
};

/// The text in tables.
constexpr std::string_view name_of(Fate fate) {
  switch (fate) {
  case Fate::completed: return "completed";
  case Fate::left: return "left";
  case Fate::interrupted: return "interrupted";
  case Fate::failed: return "failed";
  default: return "not started";
  }
}

/// What is known about a member.
struct Standing {
  Fate fate = Fate::not_started;
  std::size_t rungs = 0;             ///< number of rungs at which it was kept
  std::optional<double> value = {};  ///< the metric after its last epoch
  std::vector<double> curve = {};    ///< the metric after each of its epochs; NaN before it had a value
  double seconds = 0;                ///< seconds of training
  std::string why = {};              ///< the exception's message, if it failed

  int epochs() const;
  /// True if it was trained, and its value is a number.
  bool has_value() const;
};

/// True if `a` ranks before `b` in a table. Members that failed or never began rank last, behind those without a value,
/// or whose value is NaN. Among the others, those that passed more rungs rank first, since a value after 9 epochs does
/// not compare with one after 1; then those that were not interrupted; then the value decides.
bool before(Mode mode, Standing const& a, Standing const& b);

// The options of a sweep, and their checks.

/// Whether a high or a low value of the metric is better. There is no default, since a sweep with the wrong one keeps
/// the worst members.
struct Direction {
  Mode mode;

  constexpr Direction(Mode towards) : mode(towards) {}
  template <bool is_said = false>
  constexpr Direction() : mode(Mode::min) {
    static_assert(is_said, "[fulgurite.tune.direction] a sweep cannot know whether a low value is a good one: say "
                           ".mode = Mode::min or .mode = Mode::max");
  }
};

/// Options of a sweep, an aggregate: `{.mode = Mode::max, .rungs = {1, 3}, .keep = 1.0 / 3}`.
struct SweepOptions {
  Direction mode;               ///< direction in which the metric improves
  std::vector<int> rungs = {};  ///< numbers of epochs after which only the best `keep` continue
  double keep = 1.0 / 3;        ///< above 0, below 1; the number kept is rounded down, at least 1
  int threads = 0;              ///< members training at the same time, one core each; 0: all cores
  std::uint64_t seed = 0;       ///< seed of each member's random numbers; the same for all
  bool verbose = false;         ///< print a line on stderr when a member ends
};

/// Throws [fulgurite.tune.rungs], [fulgurite.tune.keep] or [fulgurite.tune.threads] for options out of range.
void check(SweepOptions const& options);

/// The number of members that train at the same time.
std::size_t threads_of(SweepOptions const& options, std::size_t members);

/// Thrown in the threads of the other members when one member has found an error that concerns the whole sweep.
struct SweepEnded : std::exception {
  char const* what() const noexcept override { return "the sweep has ended"; }
};

/// Schedules the members. Each has a thread of its own, and a limited number of them run at the same time: a member
/// that waits at a rung lets another one run. A rung is judged when all members have reached it or ended before it, so
/// the result does not depend on the number of threads or on their speed.
class Race {
 public:
  Race(std::size_t members, std::size_t threads, SweepOptions options);

  // These are called by the calling thread.

  /// Waits until the member may run. Returns false if the sweep has ended. `poll` is called repeatedly meanwhile,
  /// without a lock.
  bool take_turn(std::size_t member, auto&& poll) {
    auto const lock = wait(poll, [&] { return ended_ || free_ > 0; });
    if (ended_) return false;
    --free_;
    members_[member].at = At::running;
    members_[member].began = Clock::now();
    return true;
  }
  /// Waits until no member runs or waits.
  void wait_for_all(auto&& poll) {
    wait(poll, [&] {
      return std::ranges::none_of(members_, [](auto const& m) { return m.at == At::running || m.at == At::waiting; });
    });
  }
  /// Ends the training of all members at their next batch. `signal`: the signal that caused it, or 0.
  void end(int signal);
  bool ended() const { return ended_; }
  /// Called when all members have ended: a trainer used after that is not part of the sweep.
  void close() { over_ = true; }
  bool is_over() const { return over_; }
  int signal() const;
  Standing standing(std::size_t member) const;
  bool has_ended(std::size_t member) const;

  // These are called by the members' threads.

  /// Throws if the sweep has ended.
  void require_running() const { throw_if_ended(); }

  /// Called when a member has ended this epoch, counted from 0; it may be called twice for an epoch if captured steps
  /// were rolled back. `is_last`: the trainer trains no further epoch. At a rung the member waits for the others;
  /// returns false if it is not kept. Throws [fulgurite.tune.no_value] if the member has no value.
  bool epoch_ended(std::size_t member, int epoch, std::optional<double> value, bool is_last);

  /// Called when a member's fit has ended. A member that was not kept has Fate::left, any other one `fate`.
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

  std::unique_lock<std::mutex> wait(auto& poll, auto const& ready) {
    constexpr std::chrono::milliseconds often(20);  // polls, since a signal does not wake a thread
    for (;;) {
      poll();
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, often, ready)) return lock;
    }
  }

  /// Checks for a signal, too, since a batch may be shorter than the calling thread's polling interval.
  void throw_if_ended() const;

  /// Marks the member as not running, and lets another one run.
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

// The callback through which a sweep reads a member's metric, lets it wait, and ends it.

/// A sweep passes a probe to the function that makes a member, which must put it among the callbacks of the member's
/// trainer. A probe made by the user, `Probe{Net::val_accuracy}`, does nothing: with it the same function makes a
/// member that is trained alone.
template <Watchable M>
class Probe {
 public:
  using Hooks = Implements<hook::on_train_batch_end, hook::on_validation_batch_end, hook::on_train_epoch_end>;
  using Watches = MetricTypes<M>;
  using Stateless = ByChoice;  // a sweep cannot be resumed in another process
  static constexpr Order order = Order::checkpoint;
  static constexpr bool ignores_tensors = true;
  static constexpr std::string_view reads = "the sweep's metric", writes = "the end of training";

  explicit Probe(M metric) : metric_(metric) {}
  Probe(M metric, std::shared_ptr<Race> race, std::size_t member)
      : metric_(metric), race_(std::move(race)), member_(member) {}

  /// The member's index in the space, from 0; for example for a folder of its own.
  std::size_t member() const { return member_; }

  void on_train_batch_end() { require_running(); }
  void on_validation_batch_end() { require_running(); }
  Stop on_train_epoch_end(auto& ctx) {
    if (!race_ || race_->is_over() || !watch::in_fit(ctx)) return Stop{false};
    auto const value = ctx.value(metric_);
    auto const last = ctx.options().max_epochs;
    bool const is_last = last && *last >= 0 && ctx.current_epoch() + 1 >= *last;
    return Stop{!race_->epoch_ended(member_, ctx.current_epoch(), value, is_last || ctx.stop_requested())};
  }

 private:
  void require_running() const {
    if (race_ && !race_->is_over()) race_->require_running();
  }

  [[no_unique_address]] M metric_;
  std::shared_ptr<Race> race_ = nullptr;  // shared, since the best member's trainer outlives the sweep
  std::size_t member_ = 0;
};

}  // namespace fulgurite::tune

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/tuner/race.ipp>
#endif
