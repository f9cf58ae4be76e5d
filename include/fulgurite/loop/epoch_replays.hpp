#pragma once
// What an epoch does beside its batches where a strategy replays steps: when replays are checked, and the way back.

#include <optional>
#include <string>
#include <type_traits>

#include <fulgurite/loop/batch_pass.hpp>
#include <fulgurite/loop/epoch_windows.hpp>
#include <fulgurite/loop/going_back.hpp>
#include <fulgurite/loop/wrong_replay.hpp>

namespace fulgurite::loop {

/// Nothing of it is left where the strategy runs every step as it is written.
template <class R, class Pack>
class EpochReplays : public EpochWindows<R, Pack> {
  using Base = EpochWindows<R, Pack>;

 protected:
  static constexpr bool replays = ChecksReplays<typename R::Strategy>;
  using Base::Base;
  using Base::ctx_;
  using Base::pack_;
  using Base::plan_;

  /// What follows counts on the steps before it; the way back ends here.
  void confirm([[maybe_unused]] State<R>& run) {
    if constexpr (replays) {
      confirm_steps(run, pack_, ctx_);
      retreat_.drop();
    }
  }

  /// The epoch is left where it is: its replays are checked, and a wrong one is an Error, since no way leads back.
  void leave([[maybe_unused]] State<R>& run) {
    if constexpr (replays) {
      try {
        confirm(run);
      } catch (WrongReplay const& found) {
        throw WrongReplay(found.reason, found.same_model, "the fit was closed inside of an epoch");
      }
    }
  }

  /// At a window's end: checks the replays that were not checked yet, so that a point to return to can be taken there.
  /// This is done where there is no such point, or where the replays of one kind of step were checked anyway; and where
  /// 1000 rows of the log wait for a check.
  void catch_up(State<R>& run) {
    if (run.parts.strategy.unchecked() == 0) return;
    bool const moves = retreat_.is_wanted(run) && (run.parts.strategy.half_checked() || !retreat_.is_taken());
    if (moves || run.due.held_rows.size() >= 1000) confirm_steps(run, pack_, ctx_);
  }

  /// Walks on through the epoch; once more from where all was well, after a check has found wrong replays.
  template <bool One, class Loader, class Take, class Reads>
  bool walk_back_and_forth(State<R>& run, Loader& loader, std::optional<BatchPass<Loader>>& pass, Take const& take,
                           Reads const& reads) {
    std::optional<WrongReplay> wrong;
    retreat_.set_repeats(Repeats<Loader>);
    try {
      return pass->template walk<One>(take, reads);
    } catch (WrongReplay const& found) {
      if (!Repeats<Loader> || !retreat_.is_taken() || !found.same_model)
        throw WrongReplay(found.reason, found.same_model, retreat_.why_not(run, found.same_model));
      wrong.emplace(found);
    }
    pass.reset();
    go_back(run, loader, wrong->reason);
    pass.emplace(loader, plan_.most());
    return pass->template walk<One>(take, reads);
  }

  [[no_unique_address]] std::conditional_t<replays, Retreat<R, Pack>, NoRetreat> retreat_{};

 private:
  /// A check found wrong replays: the state before them, from where all steps run as they are written.
  template <class Loader>
  void go_back(State<R>& run, Loader& loader, std::string const& reason) {
    run.parts.strategy.give_up(reason);
    long const batch = retreat_.put_back(run, pack_);
    run.warn_each("fulgurite.capture.gone_back",
                  "steps were replayed wrongly: " + reason + ". The fit went back to batch " + std::to_string(batch) +
                      " of epoch " + std::to_string(run.progress.epoch) +
                      " and runs on from there as it is written; hooks of the batches since then are called again, and "
                      "globals and members outside of state(archive) stay as they are now");
    hear_strategy(run);
    if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{run.progress.epoch});
    this->observed_ = run.progress.global_step;
  }
};

}  // namespace fulgurite::loop
