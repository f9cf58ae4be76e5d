#pragma once
// How a process is connected to the others of its run: opened once, waited on with an eye on who is gone, closed when
// the process ends.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/distributed/group_options.hpp>
#include <fulgurite/distributed/leaving.hpp>
#include <fulgurite/distributed/parted.hpp>
#include <fulgurite/distributed/rendezvous.hpp>
#include <fulgurite/distributed/watch.hpp>
#include <fulgurite/loop/rank_ended.hpp>

namespace fulgurite::distributed {

/// What a Group stands on: the store where all meet, the watch over who is there, and the engines that carry messages.
/// Whatever waits, waits here: where another rank has ended, it throws loop::RankEnded; where one does not come in
/// time, an Error that says which.
class Connection {
 public:
  Connection(Connection const&) = delete;
  Connection& operator=(Connection const&) = delete;
  Place const& place() const { return place_; }

  /// What `work()` gives, which talks to another rank. Where that rank's connection breaks, it is named.
  template <class Work>
  auto or_lost(std::string_view what, Work&& work) {
    if (auto const ended = watch_->ended()) gone(*ended);
    try {
      return work();
    } catch (std::exception const& error) { lost(what, error.what()); }
  }

  /// Waits for what other ranks bring about, looking after them meanwhile. `ready(time)` says whether it is there, and
  /// waits for it no longer than that; it throws where it never will be.
  template <class Ready>
  void await(std::string_view what, Ready&& ready) {
    if (auto const ended = watch_->ended()) gone(*ended);
    auto const began = Clock::now();
    bool told = false;
    try {
      while (!ready(std::chrono::milliseconds(100))) {
        if (auto const ended = watch_->ended()) {
          if (ready(std::chrono::milliseconds(1))) break;  // what the one that has ended had sent before
          gone(*ended);
        }
        auto const waited = Clock::now() - began;
        if (!std::exchange(told, true)) watch_->waits(std::string(what));
        // What a rank had sent before it left is here at once.
        if (auto const left = watch_->left(); left && Clock::now() - left->second > grace) {
          let_go();
          throw_left(place_, what, left->first);
        }
        if (waited > options_.timeout) time_is_up(what);
      }
    } catch (loop::RankEnded const&) { throw; } catch (Error const&) {
      throw;
    } catch (std::exception const& error) { lost(what, error.what()); }
    if (told) watch_->waits({});
  }

  /// Tells the others that this rank's run has failed. Never throws.
  void abort(std::string_view text) noexcept {
    try {
      watch_->tell(place_.rank, std::string(text));
    } catch (...) {}
    let_go();
  }

 protected:
  explicit Connection(GroupOptions const& options) : options_(options), place_(options.place()) {}

  /// Another strategy of the program, or the same one for another run.
  void go_on_with(GroupOptions const& options) {
    if (!options_.is_carried_like(options))
      throw Error("fulgurite.distributed.backend",
                  "the processes of this program are connected already, by another .backend or .engine than this "
                  "strategy asks for: a program has one group, so give all its strategies the same");
    if (options.timeout == options_.timeout) return;
    options_.timeout = options.timeout;
    for (auto const& engine : {decisions_, gradients_, buckets_})
      if (engine) engine->setTimeout(2 * options_.timeout);
  }

  void open() {
    bool const nccl = options_.uses_nccl() && !options_.engine;
    if (nccl) require_nccl(place_.local_world);
    bool const own = !launched_place() && place_.world > 1;
    bool const serves = place_.rank == 0 && !place_.agent_has_store;
    store_ = serves ? serve(place_, options_.timeout) : connect(place_, options_.timeout);
    watch_ = std::make_unique<Watch>(place_, connect(place_, options_.timeout));
    try {
      if (own)
        others_ = std::make_unique<OwnRanks>(
            place_.world, place_.port, options_.others,
            [watch = watch_.get()](int rank, std::string const& how) { watch->tell(rank, how); });
      meet({place_, *watch_, options_.timeout}, store_);
      decisions_ = make("decisions");
#if defined(FULGURITE_HAS_NCCL)
      if (nccl) {
        Store const keys = c10::make_intrusive<c10d::PrefixStore>("gradients", store_);
        gradients_ = nccl_engine(keys, place_, 2 * options_.timeout);
        on_gpu_ = true;
        return;
      }
#endif
      gradients_ = make("gradients");
    } catch (std::exception const& error) {
      if (!dynamic_cast<loop::RankEnded const*>(&error)) abort(error.what());
      failed_ = true;
      close(1);
      throw;
    }
  }

  Engine make(std::string const& name) {
    Store const keys = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    auto const later = 2 * options_.timeout;  // the time that counts is measured here, where ranks can be named
    return answered({place_, *watch_, options_.timeout}, [keys, later, place = place_, engine = options_.engine] {
      return engine ? engine(keys, place, later) : gloo_engine(keys, place, later);
    });
  }

  /// Begins a collective and waits for it.
  template <class Begin>
  void run(std::string_view what, Begin&& begin) {
    decltype(begin()) work = {};
    await(what, [&](std::chrono::milliseconds time) {
      if (!work) work = begin();
      return is_over(*work, time);
    });
  }
  /// A wait whose time is up throws, as one does whose work has failed. The work may end between that and the question
  /// whether it is over, so only the work itself can say how it ended.
  static bool is_over(c10d::Work& work, std::chrono::milliseconds time) {
    try {
      work.wait(time);
      return true;
    } catch (std::exception const&) {
      if (!work.isCompleted()) return false;
    }
    work.wait();
    return true;
  }

  /// A sum on a GPU that a rank no longer comes to would never end, and neither would what is asked of the GPU after
  /// it.
  void let_go() noexcept {
    failed_ = true;
    try {
      if (std::exchange(on_gpu_, false)) gradients_->abort();
    } catch (...) {}
  }

  /// At the end of the process: rank 0 keeps the store until the others are gone, and sees to it that they go. Where
  /// one that it started has failed when no collective could tell of it any more, its own success is none.
  void close(int status) {
    bool const knows = failed_, started = others_ != nullptr;
    if (status != 0) watch_->tell(place_.rank, "its program returned " + std::to_string(status));
    if (watch_->ended()) failed_ = true;
    if (others_) {
      if (!failed_) watch_->leave();
      auto const gone = [&](std::chrono::milliseconds time) { return others_->wait_for(time); };
      if (!gone(failed_ ? std::min(patience, options_.timeout) : options_.timeout)) {
        tell(stderr, "rank 0 has ended, and ends the processes that it started and that go on\n");
        others_->signal(SIGTERM);
        if (!gone(patience / 5)) others_->signal(SIGKILL);
      }
      others_.reset();
    } else {
      leave_together(store_, place_, *watch_, failed_, patience);
    }
    watch_->stop();
    if (auto const ended = watch_->ended(); started && ended && !knows && status == 0) end_as_failed(*ended);
    if (failed_) return;  // what still waits would hold up whoever destroys it
    if (on_gpu_) gradients_->shutdown();
    buckets_.reset();
    gradients_.reset();
    decisions_.reset();
  }

 private:
  [[noreturn]] void gone(Watch::Ended const& ended) {
    let_go();
    throw loop::RankEnded(ended.rank, ended.text);
  }
  /// A connection broke: the process at its other end is gone, and soon somebody says which, or it alone is silent.
  [[noreturn]] void lost(std::string_view what, std::string_view why) {
    watch_->call_roll();
    if (auto const ended = watch_->ended_within(grace)) gone(*ended);
    let_go();
    throw_lost(place_, *watch_, what, why);
  }
  [[noreturn]] void time_is_up(std::string_view what) {
    let_go();
    throw_time_is_up(place_, *watch_, what, options_.timeout);
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds patience{5000}, grace{2000};

  GroupOptions options_;
  Place place_;
  Store store_ = {};
  std::unique_ptr<Watch> watch_ = {};
  std::unique_ptr<OwnRanks> others_ = {};  ///< that this process started
  bool failed_ = false;

 protected:
  Engine decisions_ = {}, gradients_ = {}, buckets_ = {};
  bool on_gpu_ = false;  ///< gradients; decisions are the CPU's
};

}  // namespace fulgurite::distributed
