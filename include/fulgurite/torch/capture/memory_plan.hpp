#pragma once
// Where the results of a tape lie: results that are never needed at the same time share their place in memory, as in a
// step that frees what it no longer needs.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/torch/capture/frozen.hpp>

namespace fulgurite::libtorch::capture {

/// Gives memory to storages that have none so far. A tape that kept each result in a place of its own would work on
/// several times as much memory as a plain step, and more than fits into the caches: for larger nets that costs more
/// than a replay saves.
class MemoryPlan {
 public:
  MemoryPlan() = default;
  MemoryPlan(MemoryPlan const&) = delete;
  MemoryPlan& operator=(MemoryPlan const&) = delete;

  /// This storage gets its memory elsewhere, or keeps it for good: it shares with no other.
  void leave_out(Storage storage) { apart_.insert(storage); }
  /// The tape's step of this number reads or writes the storage.
  void use(Storage storage, std::size_t step) {
    auto const [found, first] = uses_.try_emplace(storage, uses_.size(), step, step);
    if (!first) found->second.last = step;
  }

  std::size_t last_use(Storage storage) const { return uses_.at(storage).last; }

  /// Gives memory to all storages that were used and not left out. Each place begins at a cache line, as LibTorch's own
  /// memory does, since kernels may add in another order elsewhere.
  FULGURITE_BULK void lay_out() {
    std::vector<std::pair<Storage, Use>> pieces;
    for (auto const& [storage, use] : uses_)
      if (!apart_.contains(storage) && storage->nbytes() != 0) pieces.emplace_back(storage, use);
    sort_seldom(pieces, [](auto const& a, auto const& b) { return a.second.number < b.second.number; });
    std::vector<Place> taken, all;  // taken: in the order of their places
    for (auto const& [storage, use] : pieces) {
      std::erase_if(taken, [&](Place const& place) { return place.last < use.first; });
      auto const size = (storage->nbytes() + line - 1) / line * line;
      std::size_t begin = 0;
      auto at = taken.begin();
      while (at != taken.end() && at->begin < begin + size) begin = (at++)->end;
      taken.insert(at, {storage, begin, begin + size, use.last});
      all.push_back({storage, begin, begin + size, use.last});
      bytes_ = std::max(bytes_, begin + size);
    }
    if (bytes_ == 0) return;
    memory_ = c10::GetCPUAllocator()->allocate(bytes_);
    std::memset(memory_.get(), 0xff, bytes_);
    for (auto const& place : all)
      place.storage->set_data_ptr_noswap({static_cast<char*>(memory_.get()) + place.begin, at::kCPU});
  }

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t line = 64;
  struct Use {
    std::size_t number, first, last;  ///< which one it is in the order of first uses; the steps
    Use(std::size_t n, std::size_t from, std::size_t to) : number(n), first(from), last(to) {}
  };
  struct Place {
    Storage storage;
    std::size_t begin, end, last;
  };

  std::unordered_map<Storage, Use> uses_;
  std::unordered_set<Storage> apart_;
  std::size_t bytes_ = 0;
  at::DataPtr memory_;
};

}  // namespace fulgurite::libtorch::capture
