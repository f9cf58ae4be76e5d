#pragma once
// One pass over a loader, batch by batch, which can be left and gone on with.

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/each_of.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/profiled.hpp>
#include <fulgurite/loop/last_batch.hpp>
#include <fulgurite/loop/loader_state.hpp>

namespace fulgurite::loop {

/// Where a pass is.
struct PassPlace {
  long batch = 0;      ///< index of the next one
  bool used = false;   ///< of a sized loader: its iterator is still at the batch before
  bool empty = false;  ///< the loader had no batch
};

[[noreturn]] inline void throw_short(long promised, long had) {
  throw Error("fulgurite.data.size", "the loader's size() promised " + std::to_string(promised) +
                                         " batches, it ended after " + std::to_string(had) +
                                         ": make size() and the loader agree");
}

/// Calls f(batch, index, end) for each batch from here on, up to `limit`; with `One` for the next one alone. `f`
/// returns whether to go on, and has to return false where `end.after_step()` is true. This function, too, returns
/// whether to go on. An unsized loader is read one batch ahead only where it promises that batches stay valid. What
/// asks the loader for something goes through `reads`, so that a profiler can see how long that takes.
template <class Loader, bool One, class Iterator, class Stop, class F, class Reads>
[[gnu::always_inline]] inline bool walk(Iterator& it, Stop const& stop, PassPlace& place, std::optional<long> limit,
                                        F& f, Reads const& reads) {
  long& b = place.batch;
  [[maybe_unused]] auto const read = [&]() __attribute__((always_inline)) -> decltype(auto) { return *it; };
  [[maybe_unused]] auto const read_sized = [&]() __attribute__((always_inline)) -> decltype(auto) {
    if (!(it != stop)) [[unlikely]]
      throw_short(*limit, b);
    return *it;
  };
  [[maybe_unused]] auto const move_on = [&]() __attribute__((always_inline)) { ++it; };
  if constexpr (SizedLoader<Loader> && KeepsPlace<Loader>) {
    for (;; ++b) {
      auto&& batch = reads(read_sized);
      MovesPast end(it, b + 1 == *limit, reads);
      if (!f(batch, b, end)) return false;
      if constexpr (One) return ++b, true;
    }
  } else if constexpr (SizedLoader<Loader>) {
    long const batches = *limit;
    if (std::exchange(place.used, false)) reads.more(move_on);
    for (;; ++b, reads.more(move_on)) {
      auto&& batch = reads(read_sized);
      if (!f(batch, b, KnownEnd{b + 1 == batches})) return false;
      if constexpr (One) return ++b, place.used = true;
    }
  } else if constexpr (BatchesStayValid<Loader>) {
    for (; it != stop; ++b) {
      auto&& batch = reads(read);
      bool last = limit && b + 1 == *limit;
      if (!last)
        reads.more([&]() __attribute__((always_inline)) {
          ++it;
          last = !(it != stop);
        });
      if (!f(batch, b, KnownEnd{last})) return false;
      if constexpr (One) return ++b, true;
    }
    place.empty = true;
    return false;
  } else {
    if (b == 0 && !(it != stop)) {
      place.empty = true;
      return false;
    }
    for (;; ++b) {
      auto&& batch = reads(read);
      EndFoundLate end(it, stop, limit && b + 1 == *limit, reads);
      if (!f(batch, b, end)) return false;
      if constexpr (One) return ++b, true;
    }
  }
}

/// A pass that lasts: it can be left after any batch, and gone on with.
template <class Loader>
class BatchPass {
 public:
  using Iterator = decltype(std::begin(std::declval<Loader&>()));

  BatchPass(Loader& loader, std::optional<long> limit) : BatchPass(std::begin(loader), loader, limit, 0) {}
  /// One that goes on at batch `first`, from what `begin_at` returned.
  BatchPass(Iterator at, Loader& loader, std::optional<long> limit, long first)
      : it_(std::move(at)),
        stop_(std::end(loader)),
        limit_(limit),
        place_{.batch = first, .used = first != 0 && SizedLoader<Loader> && ReadAnew<Loader>} {}

  /// The next batch, or without `One` all that are left. `f` by value, and in the latter case iterators of its own:
  /// what the loop holds can then stay in registers.
  template <bool One, class F, class Reads = hook::Untimed>
  [[gnu::always_inline]] bool walk(F f, Reads const& reads = {}) {
    if constexpr (One) {
      bool const more = loop::walk<Loader, true>(it_, stop_, place_, limit_, f, reads);
      if constexpr (KeepsPlace<Loader>) has_more_ = !more && it_ != stop_;
      return more;
    } else {
      auto it = std::move(it_);
      auto const stop = std::move(stop_);
      PassPlace place = place_;
      loop::walk<Loader, false>(it, stop, place, limit_, f, reads);
      place_.empty = place.empty;
      if constexpr (KeepsPlace<Loader>) has_more_ = it != stop;
      return false;
    }
  }
  /// Whether a pass that is over has left batches in its loader. Known of loaders that keep their place.
  bool has_more() const { return has_more_; }
  bool is_empty() const { return place_.empty; }

 private:
  Iterator it_;
  decltype(std::end(std::declval<Loader&>())) stop_;
  std::optional<long> limit_;
  PassPlace place_;
  bool has_more_ = false;
};

/// A whole pass, up to `limit` batches. Returns whether there was any.
template <class Loader, class F, class Reads = hook::Untimed>
bool each_batch(Loader& loader, std::optional<long> limit, F f, Reads const& reads = {}) {
  if (limit && *limit == 0) return false;
  auto it = reads.more([&] { return std::begin(loader); });
  auto const stop = std::end(loader);
  PassPlace place;
  walk<Loader, false>(it, stop, place, limit, f, reads);
  return !place.empty;
}

/// f(loader, position) for each loader of a tuple of references.
template <class Loaders, class F>
void each_loader(Loaders& loaders, F&& f) {
  each_of(loaders, [&, i = std::size_t{0}](auto& loader) mutable { f(loader, i++); });
}

}  // namespace fulgurite::loop
