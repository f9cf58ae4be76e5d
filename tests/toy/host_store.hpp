#pragma once
// Sums of metrics without a tensor library.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fulgurite/metric/meter.hpp>

namespace toy {

/// std::vector<double> of the host, added up: what a tensor library has in a store of its own.
struct HostStore {
  struct Scope {
    static void refuse_recording() {}
  };
  template <class D>
  explicit HostStore(D const& definition)
      : how(fulgurite::metric::combining_of<D>()),
        start(definition.sums(), fulgurite::metric::neutral(how.reduce)),
        sums(start) {}
  void add(std::vector<double> const& more) {
    if (how.join && sums != start) return how.join(sums, more);
    for (std::size_t i = 0; i != sums.size(); ++i)
      sums[i] = how.reduce == fulgurite::Reduce::max ? std::max(sums[i], more[i]) : sums[i] + more[i];
  }
  std::vector<double> numbers() const { return sums; }
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
    auto all = sums;
    fulgurite::metric::combine_over_ranks(ranks, all, how, updates);
    return all;
  }
  void reset() { sums = start; }
  void merge(HostStore const& other) { add(other.sums); }
  void state(auto& archive) { archive("sums", sums); }

  fulgurite::metric::Combining how;
  std::vector<double> start, sums;
};

}  // namespace toy
