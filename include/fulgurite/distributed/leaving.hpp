#pragma once
// How processes of a run leave at their end: who keeps the store waits for the others, and a failure is no success.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>
#include <fulgurite/distributed/watch.hpp>
#include <fulgurite/loop/rank_ended.hpp>

namespace fulgurite::distributed {

/// Who keeps the store leaves last: where the run has failed, when the others have heard of it.
inline void leave_together(Store const& store, Place const& place, Watch& watch, bool failed,
                           std::chrono::milliseconds patience) noexcept {
  try {
    if (!failed) watch.leave();
    if (place.rank != 0 || place.agent_has_store) return;
    auto const until = std::chrono::steady_clock::now() + (failed ? patience / 2 : patience);
    auto const ended = watch.ended();
    for (int rank = 1; rank != place.world; ++rank) {
      auto const of_rank = std::to_string(rank);
      if (failed && ((ended && ended->rank == rank) || !store->check({"here/" + of_rank}))) continue;
      while (!store->check({(failed ? "heard/" : "left/") + of_rank}) && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } catch (...) {}
}

/// This process was about to end with success, and one that it started has failed.
[[noreturn]] inline void end_as_failed(Watch::Ended const& ended) {
  std::fprintf(stderr, "%s\n", loop::RankEnded(ended.rank, ended.text).what());
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace fulgurite::distributed
