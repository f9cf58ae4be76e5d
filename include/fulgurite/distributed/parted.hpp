#pragma once
// The sentences about ranks that do not come: who is gone, who has left, who hangs, who is elsewhere.

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/watch.hpp>

namespace fulgurite::distributed {

/// Appends one more to a list with commas, for a sentence.
inline void list(std::string& all, std::string_view one) { all.append(all.empty() ? "" : ", ").append(one); }

/// `rank` is at another collective than this one.
[[noreturn]] inline void throw_mismatch(Place const& place, std::string_view what, int rank, std::string_view other) {
  std::string sentence("ranks have parted: rank ");
  sentence.append(std::to_string(place.rank)).append(" is at '").append(what).append("', rank ");
  sentence.append(std::to_string(rank)).append(" at '").append(other);
  throw Error("fulgurite.distributed.parted",
              sentence.append("': all ranks have to run the same program on the same number of batches"));
}

/// `rank` comes to no collective any more.
[[noreturn]] inline void throw_left(Place const& place, std::string_view what, int rank) {
  std::string sentence("ranks have parted: rank ");
  sentence.append(std::to_string(place.rank)).append(" is at '").append(what).append("', and the program of rank ");
  throw Error("fulgurite.distributed.parted",
              sentence.append(std::to_string(rank))
                  .append(" has ended with success: all ranks have to run the same program to its end"));
}

/// A connection broke, the roll was called, and nobody has said that it ended.
[[noreturn]] inline void throw_lost(Place const& place, Watch& watch, std::string_view what, std::string_view why) {
  std::string silent;
  auto const all = watch.all();
  for (std::size_t rank = 0; all && rank != all->size(); ++rank) {
    if ((*all)[rank].left) throw_left(place, what, static_cast<int>(rank));
    if (!(*all)[rank].is_there) list(silent, std::to_string(rank));
  }
  std::string sentence("another process of this run is gone");
  if (!silent.empty()) sentence.append(", of rank ").append(silent).append(", which answers nobody any more");
  sentence.append(" (while ").append(what).append("): ").append(why.substr(0, why.find('\n')));
  throw Error("fulgurite.distributed.lost", sentence);
}

/// The timeout is over. The Error says which ranks are absent, and which wait for something else, as far as the store
/// knows.
[[noreturn]] inline void throw_time_is_up(Place const& place, Watch& watch, std::string_view what,
                                          std::chrono::milliseconds timeout) {
  std::string sentence("rank ");
  sentence.append(std::to_string(place.rank)).append(" has waited ").append(std::to_string(timeout.count()));
  sentence.append(" ms (while ").append(what).append("). ");
  auto const others = watch.all();
  if (!others) {
    sentence += "The store does not answer: its process, rank 0's or the launcher's, is stopped or gone";
  } else {
    std::string absent, elsewhere;
    for (std::size_t rank = 0; rank != others->size(); ++rank) {
      auto const& at = (*others)[rank].waits_for;
      if (static_cast<int>(rank) == place.rank || at == what) continue;
      if (at.empty()) list(absent, std::to_string(rank));
      else list(elsewhere, std::to_string(rank) + " (" + at + ")");
    }
    if (!absent.empty()) sentence.append("These ranks did not come: ").append(absent).append(". ");
    if (!elsewhere.empty()) sentence.append("These wait for something else: ").append(elsewhere).append(". ");
    sentence += "A rank that is stopped, hangs, or has another number of batches is the cause; where one only needs "
                "longer, to prepare data or to write a file, raise the strategy's .timeout";
  }
  throw Error("fulgurite.distributed.timeout", sentence);
}

}  // namespace fulgurite::distributed
