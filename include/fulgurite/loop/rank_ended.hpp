#pragma once
// The exception of a process whose run ends because another one of its run has ended.

#include <string>

#include <fulgurite/core/error.hpp>

namespace fulgurite::loop {

/// Thrown by a collective of a distributed strategy. `rank()` failed first; the text says why, where that is known. Who
/// gets it is not the cause, and tells nobody.
class RankEnded : public Error {
 public:
  RankEnded(int rank, std::string const& text)
      : Error("fulgurite.distributed.rank_ended", "rank " + std::to_string(rank) + " ended: " + text), rank_(rank) {}

  int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

}  // namespace fulgurite::loop
