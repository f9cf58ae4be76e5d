#pragma once
// Several loaders as one: each batch is a tuple of theirs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/combined_part.hpp>

namespace fulgurite::data {

/// When an epoch of combined loaders ends: `min_size` with the shortest loader; `max_size` with the longest, where the
/// others have no batch any more; `max_size_cycle` with the longest, where the others begin again. `sequential` is
/// refused here: pass a std::tuple of evaluation loaders instead.
enum class CombineMode : std::uint8_t { min_size, max_size, max_size_cycle, sequential };

/// The type that a loader contributes to a combined batch.
template <CombineMode Mode, class L>
using BatchIn = std::conditional_t<Mode == CombineMode::max_size, std::optional<BatchOf<L>>, BatchOf<L>>;

/// The loader that `combined` makes. It has a size where all of its loaders have one. With `max_size` the batch is a
/// tuple of std::optional.
///
/// All loaders are told the epoch of this one. A pass that `max_size_cycle` begins again within an epoch has a number
/// of its own, so that a seeded order does not come twice. A resumed epoch goes on at the same batches; loaders without
/// `resume_at` are read from the start, and what was consumed is dropped.
template <CombineMode Mode, class... Ls>
  requires(sizeof...(Ls) > 0)
class Combined : public Batches<Combined<Mode, Ls...>, std::tuple<BatchIn<Mode, Ls>...>> {
  using Base = Batches<Combined, std::tuple<BatchIn<Mode, Ls>...>>;
  static constexpr bool sized = (SizedLoader<std::remove_reference_t<Ls>> && ...);

 public:
  using typename Base::Batch;
  static constexpr CombineMode combine_mode = Mode;
  static constexpr bool wraps_loaders = true;  ///< what is missing in one of the loaders is missing here
  static constexpr bool shards_itself = (ShardsItself<std::remove_reference_t<Ls>> && ...);
  /// A combined batch holds the batches that the loaders made, so it stays valid as long as theirs do.
  static constexpr bool batches_stay_valid = (BatchesStayValid<std::remove_reference_t<Ls>> && ...);

  explicit Combined(Ls... loaders) : parts_(CombinedPart<Ls>(std::forward<Ls>(loaders))...) {}

  std::size_t size() const
    requires sized
  {
    return static_cast<std::size_t>(Mode == CombineMode::min_size ? shortest() : longest());
  }

  /// Limits each loader to a part of it, from 0 to 1 and rounded down; 1 means all of it. This is what a limit that is
  /// a Fraction means for combined loaders; a limit that is a count limits this loader as a whole. Error
  /// [fulgurite.options.fraction_too_small].
  void limit_each(double part)
    requires sized
  {
    each([&](auto& one) {
      one.limit(1);
      long const all = one.size();
      one.limit(part);
      if (part > 0 && all > 0 && one.size() == 0)
        throw Error("fulgurite.options.fraction_too_small",
                    "a limit of " + std::to_string(part) + " of each combined loader: one has " + std::to_string(all) +
                        " batches, of which that is less than one");
    });
  }

  /// Of the first loader. Setting it sets all of them.
  long batch_size() const
    requires(SettableBatchSize<std::remove_reference_t<Ls>> && ...)
  {
    return loop::batch_size_of(std::get<0>(parts_).loader());
  }
  void set_batch_size(long size)
    requires(SettableBatchSize<std::remove_reference_t<Ls>> && ...)
  {
    bool same = true;
    each([&](auto& one) { same = same && loop::batch_size_of(one.loader()) == size; });
    if (same) return;
    this->lay_out_anew();
    each([&](auto& one) { loop::set_batch_size_of(one.loader(), size); });
  }

  /// The part of one process among several, of each of the loaders.
  void shard(int rank, int world, bool training)
    requires(ShardableLoader<std::remove_reference_t<Ls>> && ...)
  {
    each([&](auto& one) { loop::shard_of(one.loader(), rank, world, training); });
  }

  /// While on, epochs are not shuffled, from the next one on. Returns false where a loader cannot be told, which may
  /// then shuffle all the same.
  bool in_order(bool on) {
    bool all = true;
    each([&](auto& one) { all &= loop::keep_order(one.loader(), on); });
    return all;
  }

  void state(auto& archive) {
    Base::state(archive);
    each([&, i = 0](auto& one) mutable {
      std::string const key = "loader." + std::to_string(i++);
      if constexpr (Stateful<typename std::remove_reference_t<decltype(one)>::Loader,
                             std::remove_reference_t<decltype(archive)>>)
        archive.child(key, one.loader());
    });
  }

 private:
  friend Base;

  void start(long epoch, long first) {
    long const most = longest();
    bool const replay = Mode != CombineMode::min_size && !sized &&
                        first > 0;  // the position of each loader after so many batches is not known
    each([&](auto& one) {
      long const size = one.size();
      if constexpr (Mode == CombineMode::max_size_cycle) {
        if (size == 0) empty();
        long const passes = sized ? (most + size - 1) / size : 1, before = sized ? first / size : 0;
        one.open(epoch * passes + before, sized ? first % size : 0, before > 0);
      } else if (Mode == CombineMode::max_size && sized && first >= size) {
        one.close();
      } else {
        one.open(epoch, replay ? 0 : first, false);
      }
    });
    if (!replay) return;
    std::optional<Batch> dropped;
    for (; first > 0 && next(dropped); --first) dropped.reset();
  }

  bool next(std::optional<Batch>& batch) {
    return std::apply(
        [&](auto&... one) {
          std::tuple<std::optional<BatchOf<Ls>>...> taken;
          return std::apply([&](auto&... into) { return fill(batch, std::tie(one, into)...); }, taken);
        },
        parts_);
  }
  template <class... Pairs>
  static bool fill(std::optional<Batch>& batch, Pairs... pairs) {
    if constexpr (Mode == CombineMode::min_size) {
      if (!(take(pairs) && ...)) return false;
    } else {
      bool any = false;
      ((any = take(pairs) || any), ...);
      if constexpr (Mode == CombineMode::max_size_cycle) {
        if ((std::get<0>(pairs).ended() && ...)) return false;
        (retake(pairs), ...);
      } else if (!any) {
        return false;
      }
    }
    if constexpr (Mode == CombineMode::max_size) batch.emplace(std::move(std::get<1>(pairs))...);
    else batch.emplace(std::move(*std::get<1>(pairs))...);
    return true;
  }
  static bool take(auto& pair) { return std::get<0>(pair).take(std::get<1>(pair)); }
  static void retake(auto& pair) {
    if (std::get<1>(pair)) return;
    std::get<0>(pair).again();
    if (!take(pair)) empty();
  }
  [[noreturn]] static void empty() {
    throw Error("fulgurite.data.empty",
                "one of the combined loaders has no batch, so it cannot begin again: leave it out, or fill it");
  }

  void each(auto&& f) {
    std::apply([&](auto&... one) { (f(one), ...); }, parts_);
  }
  long shortest() const {
    return std::apply([](auto const&... one) { return std::min({one.size()...}); }, parts_);
  }
  long longest() const {
    return std::apply([](auto const&... one) { return std::max({one.size()...}); }, parts_);
  }

  std::tuple<CombinedPart<Ls>...> parts_;
};

/// Several loaders as one: `auto both = data::combined<data::CombineMode::min_size>(std::move(labelled),
/// std::ref(unlabelled));`. The step receives `std::tuple<A, B>`, as `auto& [a, b] = batch;`. Loaders are moved in, or
/// borrowed by std::ref.
template <CombineMode Mode = CombineMode::max_size_cycle, class... Ls>
auto combined(Ls... loaders) {
  constexpr bool side_by_side = Mode != CombineMode::sequential;
  static_assert(side_by_side,
                "[fulgurite.data.sequential] a fit cannot take combined loaders one after the other: choose min_size, "
                "max_size or max_size_cycle; for evaluation pass a std::tuple");
  return Combined<Mode, std::unwrap_reference_t<Ls>...>(std::move(loaders)...);
}

}  // namespace fulgurite::data
