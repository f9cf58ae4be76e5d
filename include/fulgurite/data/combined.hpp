#pragma once
// Several loaders as one: each batch is a tuple of their batches.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/data/batches.hpp>

namespace fulgurite::data {

// One of several loaders that are read side by side, and how far it has been read.

/// The type of a loader's batches, without a reference.
template <class L>
using BatchOf = std::remove_cvref_t<decltype(*std::begin(std::declval<L&>()))>;

/// One of the combined loaders and its position. `L` is a reference if the loader was given by std::ref.
template <class L>
class CombinedPart {
 public:
  using Loader = std::remove_reference_t<L>;

  explicit CombinedPart(L loader) : loader_(std::forward<L>(loader)) {}

  Loader& loader() { return loader_; }
  Loader const& loader() const { return loader_; }
  bool ended() const { return ended_; }  ///< true if it ended at least once in this epoch

  /// The number of batches in one pass, after the limit; negative if unknown.
  long size() const {
    if constexpr (SizedLoader<Loader>) {
      auto const all = static_cast<long>(const_cast<Loader&>(loader_).size());
      return part_ < 1 ? static_cast<long>(static_cast<double>(all) * part_) : all;
    } else {
      return -1;
    }
  }
  void limit(double part) { part_ = part; }

  /// Begins pass `number` at its batch `first`. `ended` is true if earlier passes of this epoch were completed.
  void open(long number, long first, bool ended) {
    at_.reset();
    if constexpr (loop::TakesEpoch<Loader>) loader_.set_epoch(number);
    if constexpr (loop::Jumps<Loader>) loader_.resume_at(first);
    at_.emplace(std::begin(loader_));
    number_ = number;
    taken_ = first;
    ended_ = ended;
    if constexpr (!loop::Jumps<Loader>)
      for (; first > 0 && *at_ != std::end(loader_); --first) ++*at_;
    fresh_ = true;
  }
  void close() {
    at_.reset();
    ended_ = true;
  }
  /// Begins another pass within this epoch; its number is that of the last one plus `step`.
  void again(long step) { open(number_ + step, 0, true); }

  /// Takes the next batch of this pass; returns false if there is none.
  bool take(std::optional<BatchOf<L>>& into) {
    if (!at_) return false;
    bool const limited = part_ < 1 && taken_ == size();  // batches beyond the limit are not read
    if (!limited && !std::exchange(fresh_, false)) ++*at_;
    if (limited || !(*at_ != std::end(loader_))) return close(), false;
    ++taken_;
    decltype(auto) batch = **at_;
    // Loaders of this library own their batch, so it can be moved from; other loaders may yield the user's own object.
    if constexpr (std::derived_from<Loader, Batches<Loader, BatchOf<L>>> || !std::is_reference_v<decltype(batch)>)
      into.emplace(std::move(batch));
    else into.emplace(batch);
    return true;
  }

 private:
  L loader_;
  std::optional<decltype(std::begin(std::declval<Loader&>()))> at_{};
  double part_ = 1;
  long number_ = 0, taken_ = 0;
  bool fresh_ = false, ended_ = false;
};

/// When an epoch of combined loaders ends: `min_size` with the shortest loader; `max_size` with the longest, while the
/// others yield no more batches; `max_size_cycle` with the longest, while the others start again. `sequential` does not
/// compile here: pass a std::tuple of evaluation loaders instead.
enum class CombineMode : std::uint8_t { min_size, max_size, max_size_cycle, sequential };

/// The type that a loader contributes to a combined batch.
template <CombineMode Mode, class L>
using BatchIn = std::conditional_t<Mode == CombineMode::max_size, std::optional<BatchOf<L>>, BatchOf<L>>;

/// The loader that `combined` returns. It has a size if all of its loaders have one. With `max_size` the batch is a
/// tuple of std::optional.
///
/// All loaders get the epoch of this one. A pass that `max_size_cycle` starts again within an epoch gets a number of
/// its own, so that a seeded order is not repeated. A resumed epoch continues with the same batches; loaders without
/// `resume_at` are read from the start, and the consumed batches are dropped. That is right if they have the same
/// batches in each pass; a trainer that writes checkpoints refuses others.
template <CombineMode Mode, class... Ls>
  requires(sizeof...(Ls) > 0)
class Combined : public Batches<Combined<Mode, Ls...>, std::tuple<BatchIn<Mode, Ls>...>> {
  using Base = Batches<Combined, std::tuple<BatchIn<Mode, Ls>...>>;
  static constexpr bool sized = (SizedLoader<std::remove_reference_t<Ls>> && ...);
  // From the number of a pass to that of the next one in the same epoch. Without a size the number of passes in an
  // epoch is unknown, so the step is larger than any number of an epoch.
  static constexpr long between_passes = sized ? 1 : 1'000'000;
  static constexpr bool may_wait = (MayWait<std::remove_reference_t<Ls>> || ...);

 public:
  using Batch = std::tuple<BatchIn<Mode, Ls>...>;
  static constexpr CombineMode combine_mode = Mode;
  using WrappedLoaders = std::tuple<std::remove_reference_t<Ls>...>;
  static constexpr bool shards_itself = (ShardsItself<std::remove_reference_t<Ls>> && ...);
  /// A combined batch holds the batches of the loaders, so it stays valid as long as theirs do.
  static constexpr bool batches_stay_valid = (BatchesStayValid<std::remove_reference_t<Ls>> && ...);

  explicit Combined(Ls... loaders) : parts_(CombinedPart<Ls>(std::forward<Ls>(loaders))...) {}

  std::size_t size() const
    requires sized
  {
    return static_cast<std::size_t>(Mode == CombineMode::min_size ? shortest() : longest());
  }

  /// Limits each loader to a fraction of it, from 0 to 1 and rounded down; 1 means all of it. A limit that is a
  /// Fraction does this for combined loaders; a limit that is a count limits this loader as a whole. Throws
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

  /// The batch size of the first loader. Setting it sets the batch size of all of them.
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
    this->change_layout();
    each([&](auto& one) { loop::set_batch_size_of(one.loader(), size); });
  }

  /// Restricts each of the loaders to one rank's part, but for those that have no other.
  void shard(int rank, int world, bool training)
    requires((ShardableLoader<std::remove_reference_t<Ls>> || ShardsItself<Ls>) && ...)
  {
    each([&](auto& one) {
      if constexpr (!ShardsItself<decltype(one.loader())>) loop::shard_of(one.loader(), rank, world, training);
    });
  }

  /// While on, epochs are not shuffled, from the next one on. Returns false if one of the loaders does not support
  /// this; that loader may still shuffle.
  bool in_order(bool on) {
    bool all = true;
    each([&](auto& one) { all &= loop::keep_order(one.loader(), on); });
    return all;
  }

  /// Returns true if none of the loaders has to be waited for.
  bool batch_is_ready()
    requires may_wait
  {
    bool all = true;
    each([&](auto& one) {
      if constexpr (MayWait<std::remove_reference_t<decltype(one.loader())>>)
        all = all && one.loader().batch_is_ready();
    });
    return all;
  }

  /// Says that the epoch is over, for those loaders, too, that have batches left.
  void finish_epoch() {
    Base::finish_epoch();
    each([](auto& one) {
      if constexpr (requires { one.loader().finish_epoch(); }) one.loader().finish_epoch();
    });
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
                        first > 0;  // the position of each loader after `first` batches is unknown
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
    std::get<0>(pair).again(between_passes);
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

/// Refuses a loader that was passed by its name and can only be moved.
template <class... Ls>
consteval bool can_take_over() {
  constexpr bool can = (std::constructible_from<std::decay_t<Ls>, Ls> && ...);
  static_assert(can,
                "[fulgurite.data.copied] combined(), named() and of_this_rank() take loaders over, and one that was "
                "passed by its name cannot be copied: write std::move(loader), or std::ref(loader) to borrow it");
  return can;
}

/// Combines several loaders into one, for steps that need a batch of each: `auto both =
/// data::combined<data::CombineMode::min_size>(std::move(labelled), std::ref(unlabelled));`. The step receives
/// `std::tuple<A, B>`, as `auto& [a, b] = batch;`. Loaders are moved in, or borrowed by std::ref.
template <CombineMode Mode = CombineMode::max_size_cycle, class... Ls>
auto combined(Ls&&... loaders) {
  constexpr bool side_by_side = Mode != CombineMode::sequential;
  static_assert(side_by_side,
                "[fulgurite.data.sequential] a fit cannot take combined loaders one after the other: choose min_size, "
                "max_size or max_size_cycle; for evaluation pass a std::tuple");
  constexpr bool of_loaders =
      sizeof...(Ls) > 0 && (LoaderLike<std::remove_reference_t<std::unwrap_ref_decay_t<Ls>>> && ...);
  static_assert(of_loaders,
                "[fulgurite.data.no_loader] data::combined joins loaders, which are ranges of batches: pass "
                "it loaders alone, data::combined(first, second)");
  if constexpr (of_loaders && can_take_over<Ls...>())
    return Combined<Mode, std::unwrap_ref_decay_t<Ls>...>(std::forward<Ls>(loaders)...);
}

// An evaluation loader with a name, which distinguishes its metrics from those of other loaders.

/// A loader that refers to a loader owned by the caller.
template <class L>
class Borrowed {
 public:
  static constexpr bool batches_stay_valid = BatchesStayValid<L>;
  using WrappedLoaders = std::tuple<L>;
  static constexpr bool shards_itself = ShardsItself<L>;

  explicit Borrowed(L& loader) : loader_(&loader) {}

  L& get() const { return *loader_; }
  auto begin() const { return std::begin(get()); }
  auto end() const { return std::end(get()); }
// Each function of the borrowed loader, where it has it.
#define FULGURITE_LENT(FUNCTION, CONDITION, ...)                                                                       \
  FUNCTION const                                                                                                       \
    requires CONDITION                                                                                                 \
  {                                                                                                                    \
    return __VA_ARGS__;                                                                                                \
  }
  FULGURITE_LENT(auto size(), SizedLoader<L>, get().size())
  FULGURITE_LENT(void set_epoch(long epoch), loop::TakesEpoch<L>, void(get().set_epoch(epoch)))
  FULGURITE_LENT(void resume_at(long batch), loop::Jumps<L>, void(get().resume_at(batch)))
  FULGURITE_LENT(void finish_epoch(), requires(L& loader) { loader.finish_epoch(); }, get().finish_epoch())
  FULGURITE_LENT(long batch_size(), SettableBatchSize<L>, loop::batch_size_of(get()))
  FULGURITE_LENT(void set_batch_size(long size), SettableBatchSize<L>, loop::set_batch_size_of(get(), size))
  FULGURITE_LENT(void shard(int rank, int world, bool training), ShardableLoader<L>,
                 loop::shard_of(get(), rank, world, training))
  FULGURITE_LENT(auto share(), requires(L const& loader) { loader.share(); }, get().share())
  FULGURITE_LENT(auto in_order(bool on), KeepsOrder<L>, get().in_order(on))
  FULGURITE_LENT(void limit_each(double part), (hook::limit_each::accepts<L, double>), void(get().limit_each(part)))
  FULGURITE_LENT(Waited waited(), ReportsWaiting<L>, get().waited())
#undef FULGURITE_LENT
  template <class Archive>
    requires Stateful<L, Archive>
  void state(Archive& archive) const {
    get().state(archive);
  }

 private:
  L* loader_;
};

/// How `named` and `of_this_rank` keep a loader: borrowed if std::ref was given.
template <class L, class Given = std::unwrap_ref_decay_t<L>>
using Kept = std::conditional_t<std::is_reference_v<Given>, Borrowed<std::remove_reference_t<Given>>, Given>;

/// The loader that `named` returns: the given one, with a name.
template <FixedString Name, class L>
class Named : public L {
 public:
  static constexpr std::string_view loader_name = Name.view();
  explicit Named(L loader) : L(std::move(loader)) {}
};

/// Names evaluation loaders: `std::tuple{data::named<"clean">(std::move(clean)),
/// data::named<"noisy">(std::ref(noisy))}`. Their metrics are then called `val_loss/clean` and `val_loss/noisy` instead
/// of `val_loss/dataloader_idx_0` and `_1`. The loader is moved in, or borrowed by std::ref.
template <FixedString Name, class L>
auto named(L&& loader) {
  if constexpr (can_take_over<L>()) return Named<Name, Kept<L>>(Kept<L>(std::forward<L>(loader)));
}

/// The loader that `of_this_rank` returns.
template <class L>
class OfThisRank : public L {
 public:
  static constexpr bool shards_itself = true;
  explicit OfThisRank(L loader) : L(std::move(loader)) {}
};

/// Declares that a loader, which cannot be sharded over ranks, already yields only this rank's part: `trainer.fit(net,
/// data::of_this_rank(my_batches(rank)))`. The loader is moved in, or borrowed by std::ref. If the loader is in fact
/// the same in every process, all of them train on the same batches.
template <class L>
auto of_this_rank(L&& loader) {
  if constexpr (can_take_over<L>()) return OfThisRank<Kept<L>>(Kept<L>(std::forward<L>(loader)));
}

}  // namespace fulgurite::data
