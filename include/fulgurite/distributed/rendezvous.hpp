#pragma once
// How the processes of a run find each other through their store, with nobody waiting for ever.

#include <chrono>
#include <future>
#include <string>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>
#include <fulgurite/distributed/watch.hpp>
#include <fulgurite/loop/rank_ended.hpp>

namespace fulgurite::distributed {

/// Who waits, looking after the others, and how long at most.
struct Patience {
  using Clock = std::chrono::steady_clock;

  Place const& place;
  Watch& watch;
  std::chrono::milliseconds timeout;
  Clock::time_point until = Clock::now() + timeout;
};

/// What `work()` gives, which asks the store (in_background).
template <class Work>
auto answered(Patience const& patience, Work work) {
  auto result = in_background(std::move(work));
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (auto const ended = patience.watch.ended()) throw loop::RankEnded(ended->rank, ended->text);
    if (Patience::Clock::now() > patience.until)
      throw Error("fulgurite.distributed.store",
                  "rank " + std::to_string(patience.place.rank) + " has waited " +
                      std::to_string(patience.timeout.count()) + " ms for the store at " + patience.place.host + ":" +
                      std::to_string(patience.place.port) +
                      " or for connections to the other ranks, without an answer: the store's process, rank 0's or the "
                      "launcher's, or another rank is stopped, or the network is cut");
  }
  return result.get();
}

/// Waits until all ranks are there.
inline void meet(Patience const& patience, Store const& store) {
  auto const& place = patience.place;
  auto const here = [](int rank) { return "here/" + std::to_string(rank); };
  answered(patience, [store, mine = here(place.rank)] { store->set(mine, bytes_of("yes")); });
  auto last = patience;  // who has waited long enough asks once more for each rank, and expects an answer to that
  last.until += std::chrono::seconds(5);
  std::string missing;
  for (int rank = 0; rank != place.world; ++rank) {
    auto const is_here = [&] { return answered(last, [store, key = here(rank)] { return store->check({key}); }); };
    bool came = is_here();
    while (!came && Patience::Clock::now() < patience.until) {
      if (auto const ended = patience.watch.ended_within(std::chrono::milliseconds(20)))
        throw loop::RankEnded(ended->rank, ended->text);
      came = is_here();
    }
    if (!came) missing.append(missing.empty() ? "" : ", ").append(std::to_string(rank));
  }
  if (!missing.empty())
    throw Error("fulgurite.distributed.absent",
                "of " + std::to_string(place.world) + " processes these ranks did not come within " +
                    std::to_string(patience.timeout.count()) + " ms: " + missing +
                    ": see whether they were started, and with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE");
}

}  // namespace fulgurite::distributed
