#pragma once
// The threads of a sweep: makes its members, trains them, keeps the best one.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/caught_signals.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/core/known.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/tuner/member.hpp>
#include <fulgurite/tuner/probe.hpp>
#include <fulgurite/tuner/race.hpp>
#include <fulgurite/tuner/sweep_results.hpp>

namespace fulgurite::tune {

/// What is wrong with every member alike: the sweep ends with it.
class Refusal : public Error {
 public:
  using Error::Error;
};

/// A sweep under way: each member is made and trained on a thread of its own, as many at a time as the race lets run.
template <class Make, class Setting, class M>
class Heat {
 public:
  using Probe = tune::Probe<M>;
  using Member = std::remove_cvref_t<std::invoke_result_t<Make&, Setting const&, Probe>>;
  using Backend = typename Member::Trainer::Run::Backend;

  Heat(Make& make, Space<Setting> const& space, M metric, SweepOptions const& options)
      : make_(make),
        space_(space),
        metric_(metric),
        options_(options),
        threads_(threads_of(options, space.settings.size())),
        race_(std::make_shared<Race>(space.settings.size(), threads_, options)),
        members_(space.settings.size()) {}

  SweepResults<Setting, Member> run() {
    {
      CaughtSignals const caught({SIGINT, SIGTERM});
      Threads threads{std::vector<std::thread>(members_.size())};
      auto const poll = [&] {
        if (int const signal = CaughtSignals::caught(); signal != 0 && !race_->ended()) race_->end(signal);
      };
      try {
        for (std::size_t i = 0; i != members_.size() && race_->take_turn(i, poll); ++i) {
          threads.all[i] = std::thread([this, i] { train(i); });
          for (std::size_t j = 0; j != i; ++j)
            if (threads.all[j].joinable() && race_->has_ended(j)) threads.all[j].join();
        }
        race_->wait_for_all(poll);
      } catch (...) {
        race_->end(0);  // a thread could not be started
        throw;
      }
    }
    if (refused_) std::rethrow_exception(refused_);
    return results();
  }

 private:
  struct Threads {
    std::vector<std::thread> all;
    ~Threads() {
      for (auto& thread : all)
        if (thread.joinable()) thread.join();
    }
  };

  void train(std::size_t i) {
    auto fate = Fate::failed;
    std::string why;
    try {
      [[maybe_unused]] auto const own = apart_.thread(options_.seed);
      make(i);
      check(*members_[i]);
      members_[i]->fit();
      check_random();
      if (race_->standing(i).value) fate = Fate::completed;
      else why = "nobody has logged " + watch::written(metric_) + " by the end of the fit";
    } catch (Interrupted const& interrupted) {
      fate = Fate::interrupted;
      race_->end(interrupted.signal());
    } catch (SweepEnded const&) { fate = Fate::interrupted; } catch (Refusal const&) {
      std::lock_guard const lock(one_at_a_time_);
      if (!refused_) refused_ = std::current_exception();
      race_->end(0);
    } catch (std::exception const& error) { why = error.what(); } catch (...) {
      why = "an exception that is no std::exception";
    }
    settle(i, fate, std::move(why));
  }

  /// Made by one thread at a time: the function is the user's, and may use what all of them have in common.
  void make(std::size_t i) {
    std::lock_guard const lock(one_at_a_time_);
    race_->go_on();
    members_[i].reset(new Member(make_(space_.settings[i], Probe(metric_, race_, i))));  // in its place, not moved
    check_random();
  }

  void check(Member const& member) const {
    auto const& options = member.trainer.options();
    using Run = typename Member::Trainer::Run;
    if constexpr (Run::Strategy::on_gpu == Known::at_run_time)
      if (member.trainer.strategy().is_on_gpu())
        throw Refusal("fulgurite.tune.device", "members of a sweep train on the CPU, since random numbers of a GPU "
                                               "belong to all of them: use SingleDevice{cpu}");
    if constexpr (Run::Precision::autocasts)
      if (threads_ > 1)
        throw Refusal("fulgurite.tune.autocast", "a mixed precision keeps what it has cast in one place for the whole "
                                                 "process, where members would drop one another's: say .threads = 1, "
                                                 "or use Float32{} or Bf16True{}");
    if (options_.rungs.empty()) return;
    if (options.min_epochs.value_or(0) > 0 || options.min_steps.value_or(0) > 0)
      throw Refusal("fulgurite.tune.minima", "a member that is not among the best ends at a rung, and min_epochs or "
                                             "min_steps would have it go on: leave them out, or the rungs");
    if (options.max_time)
      throw Refusal("fulgurite.tune.max_time", "max_time would go on while a member waits at a rung for the others: "
                                               "say max_epochs, or leave the rungs out");
    if (auto const most = options.max_epochs; most && *most >= 0 && options_.rungs.back() > *most)
      throw Refusal("fulgurite.tune.rungs", "a rung after " + std::to_string(options_.rungs.back()) +
                                                " epochs is never reached where max_epochs = " + std::to_string(*most));
  }

  /// What a member draws it draws from its own random numbers. Where the process's have moved, somebody went around
  /// them, and members are not what they would be alone.
  void check_random() {
    if (!apart_.disturbed()) return;
    throw Refusal("fulgurite.tune.process_random",
                  "random numbers of the whole process were drawn or seeded while members trained, which have their "
                  "own: leave out manual_seed (.seed of the sweep does it), draw in the member's own thread and not "
                  "in workers, and nothing beside the sweep");
  }

  void settle(std::size_t i, Fate fate, std::string why) {
    auto const now = race_->ended(i, fate, std::move(why));
    std::lock_guard const lock(one_at_a_time_);
    ++done_;
    keep(i, now);
    if (options_.verbose) tell(stderr, line(i, now) + "\n");
  }

  /// Models that cannot be the best are let go. With rungs all of them were there at once anyway, and the next rung may
  /// change who is before whom.
  void keep(std::size_t i, Standing const& now) {
    bool const counts = has_value(now);
    if (!counts) members_[i].reset();
    if (!counts || !options_.rungs.empty()) return;
    bool const better = !best_ || is_before(i, now, *best_, race_->standing(*best_));
    if (better && best_) members_[*best_].reset();
    if (!better) members_[i].reset();
    if (better) best_ = i;
  }
  /// Of equals the one that stands first in the space.
  bool is_before(std::size_t i, Standing const& a, std::size_t j, Standing const& b) const {
    return before(options_.mode.mode, a, b) || (i < j && !before(options_.mode.mode, b, a));
  }
  static bool has_value(Standing const& s) {
    return s.fate != Fate::failed && s.fate != Fate::not_started && s.value && !std::isnan(*s.value);
  }

  std::string line(std::size_t i, Standing const& now) const {
    auto text = "sweep: " + std::to_string(done_) + " of " + std::to_string(members_.size()) + ", member " +
                std::to_string(i) + ' ';
    (text += name_of(now.fate)) += " after " + std::to_string(now.epochs()) + " epochs";
    if (now.value) ((text += ", ") += watch::written(metric_)) += " = " + report::formatted("%.6g", *now.value);
    if (!now.why.empty()) (text += ": ") += now.why;
    return text;
  }

  SweepResults<Setting, Member> results() {
    race_->close();
    std::vector<SweepRow<Setting>> rows;
    for (std::size_t i = 0; i != members_.size(); ++i) rows.push_back({race_->standing(i), i, space_.settings[i]});
    std::ranges::sort(rows, [&](auto const& a, auto const& b) { return is_before(a.member, a, b.member, b); });
    auto best = has_value(rows.front()) ? std::move(members_[rows.front().member]) : nullptr;
    return {watch::written(metric_), space_.columns, std::move(rows), std::move(best), race_->signal()};
  }

  Make& make_;
  Space<Setting> const& space_;
  M metric_;
  SweepOptions const& options_;
  std::size_t threads_;
  typename Backend::Apart apart_{};
  std::shared_ptr<Race> race_;
  std::mutex one_at_a_time_;
  std::vector<std::unique_ptr<Member>> members_;
  std::optional<std::size_t> best_ = std::nullopt;
  std::size_t done_ = 0;
  std::exception_ptr refused_ = nullptr;
};

}  // namespace fulgurite::tune
