#pragma once
// Sorting where time does not matter: files, names, entries of a file. std::sort makes some four kilobytes of code for
// each type and each order, in every program; here there is one function for all of them.

#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>

namespace fulgurite {

/// Sorts `count` places, which only the two functions know, by a heap: never more than 2 n log n comparisons.
FULGURITE_COLD void sort_places(std::size_t count, FunctionRef<bool(std::size_t, std::size_t)> before,
                                FunctionRef<void(std::size_t, std::size_t)> exchange) {
  auto const sink = [&](std::size_t at, std::size_t end) {
    for (std::size_t child = 2 * at + 1; child < end; at = child, child = 2 * at + 1) {
      if (child + 1 < end && before(child, child + 1)) ++child;
      if (!before(at, child)) return;
      exchange(at, child);
    }
  };
  for (std::size_t at = count / 2; at-- != 0;) sink(at, count);
  for (std::size_t end = count; end > 1;) {
    exchange(0, --end);
    sink(0, end);
  }
}

/// Sorts what lies in one piece of memory, as std::sort does: what is equal comes in any order.
///   sort_seldom(files);   sort_seldom(rows, [](Row const& a, Row const& b) { return a.size < b.size; });
template <class Range, class Before = std::less<>>
void sort_seldom(Range& range, Before before = {}) {
  auto* const first = std::data(range);
  sort_places(
      std::size(range), [&](std::size_t a, std::size_t b) { return before(first[a], first[b]); },
      [&](std::size_t a, std::size_t b) {
        using std::swap;
        swap(first[a], first[b]);
      });
}

}  // namespace fulgurite
