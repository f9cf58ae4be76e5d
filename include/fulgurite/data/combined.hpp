#pragma once
// Several loaders as one: each batch is a tuple of theirs.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/batches.hpp>

namespace fulgurite::data {

/// When an epoch of combined loaders ends: with the shortest; with the longest, the others having no batch any more; with the longest,
/// the others beginning again. Sequential is what a std::tuple of evaluation loaders is.
enum class CombineMode : std::uint8_t { min_size, max_size, max_size_cycle, sequential };

/// What a loader yields, as a value.
template <class L>
using BatchOf = std::remove_cvref_t<decltype(*std::begin(std::declval<L&>()))>;

/// What stands for a loader in a combined batch.
template <CombineMode Mode, class L>
using BatchIn = std::conditional_t<Mode == CombineMode::max_size, std::optional<BatchOf<L>>, BatchOf<L>>;

/// Can be told not to shuffle.
template <class L>
concept PutInOrder = requires(L& loader, bool on) { loader.in_order(on); };

/// One of the combined loaders, and how far it is. `L` is a reference where it was given by std::ref.
template <class L>
class CombinedPart {
 public:
  using Loader = std::remove_reference_t<L>;

  explicit CombinedPart(L loader) : loader_(std::forward<L>(loader)) {}

  Loader& loader() { return loader_; }
  bool ended() const { return ended_; }  ///< at least once in this epoch

  /// Batches of a pass, after the limit; negative: nobody knows.
  long size() const {
    if constexpr (SizedLoader<Loader>) {
      auto const all = static_cast<long>(const_cast<Loader&>(loader_).size());
      return part_ < 1 ? static_cast<long>(static_cast<double>(all) * part_) : all;
    } else {
      return -1;
    }
  }
  void limit(double part) { part_ = part; }

  /// Begins pass `number` at its batch `first`; `ended`: passes of this epoch came before.
  void open(long number, long first, bool ended) {
    at_.reset();
    if constexpr (requires { loader_.set_epoch(number); }) loader_.set_epoch(number);
    if constexpr (requires { loader_.resume_at(first); }) loader_.resume_at(first);
    at_.emplace(std::begin(loader_));
    number_ = number;
    taken_ = first;
    ended_ = ended;
    if constexpr (!requires { loader_.resume_at(first); })
      for (; first > 0 && *at_ != std::end(loader_); --first) ++*at_;
    fresh_ = true;
  }
  void close() {
    at_.reset();
    ended_ = true;
  }
  void again() { open(number_ + 1, 0, true); }

  /// The next batch of this pass, if there is one.
  bool take(std::optional<BatchOf<L>>& into) {
    if (!at_) return false;
    bool const limited = part_ < 1 && taken_ == size();  // what lies behind a limit is not read
    if (!limited && !std::exchange(fresh_, false)) ++*at_;
    if (limited || !(*at_ != std::end(loader_))) return close(), false;
    ++taken_;
    decltype(auto) batch = **at_;
    // The slots of our loaders hold a batch for us alone; elsewhere it may be the user's own.
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

/// A loader, made by `combined`; sized where all of its loaders are. In the mode max_size the batch is a tuple of std::optional.
///
/// Each loader's epoch is that of this one; a pass that max_size_cycle begins again in it has a number of its own, so that a seeded order
/// never comes twice. A resumed epoch goes on at the same batches: loaders without `resume_at` are read from the start and dropped.
template <CombineMode Mode, class... Ls>
  requires(sizeof...(Ls) > 0)
class Combined : public Batches<Combined<Mode, Ls...>, std::tuple<BatchIn<Mode, Ls>...>> {
  using Base = Batches<Combined, std::tuple<BatchIn<Mode, Ls>...>>;
  static constexpr bool sized = (SizedLoader<std::remove_reference_t<Ls>> && ...);

 public:
  using typename Base::Batch;
  static constexpr CombineMode combine_mode = Mode;

  explicit Combined(Ls... loaders) : parts_(CombinedPart<Ls>(std::forward<Ls>(loaders))...) {}

  std::size_t size() const
    requires sized
  {
    return static_cast<std::size_t>(Mode == CombineMode::min_size ? shortest() : longest());
  }

  /// A part of each loader, from 0 to 1 (1: all of it), rounded down: what a limit that is a Fraction means here. (A limit that is a
  /// count needs no more than that many batches of this loader.) Throws fulgurite.options.fraction_too_small.
  void limit_each(double part)
    requires sized
  {
    each([&](auto& one) {
      one.limit(1);
      long const all = one.size();
      one.limit(part);
      if (part > 0 && all > 0 && one.size() == 0)
        throw Error("fulgurite.options.fraction_too_small", "a limit of " + std::to_string(part) + " of each combined loader: one has " +
                                                                std::to_string(all) + " batches, of which that is less than one");
    });
  }

  /// On: from the next epoch without shuffling, where they can.
  void in_order(bool on)
    requires(PutInOrder<std::remove_reference_t<Ls>> || ...)
  {
    each([on](auto& one) {
      if constexpr (PutInOrder<typename std::remove_reference_t<decltype(one)>::Loader>) one.loader().in_order(on);
    });
  }

  void state(auto& archive) {
    Base::state(archive);
    each([&, i = 0](auto& one) mutable {
      std::string const key = "loader." + std::to_string(i++);
      if constexpr (Stateful<typename std::remove_reference_t<decltype(one)>::Loader, std::remove_reference_t<decltype(archive)>>)
        archive.child(key, one.loader());
    });
  }

 private:
  friend Base;

  void start(long epoch, long first) {
    long const most = longest();
    bool const replay = Mode != CombineMode::min_size && !sized && first > 0;  // where each is after so many nobody knows
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
    throw Error("fulgurite.data.empty", "one of the combined loaders has no batch, so it cannot begin again: leave it out, or fill it");
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

/// `auto both = data::combined<data::CombineMode::min_size>(std::move(labelled), std::ref(unlabelled));`: the step receives
/// `std::tuple<A, B>` (`auto& [a, b] = batch;`). Loaders are moved in, or borrowed by std::ref.
template <CombineMode Mode = CombineMode::max_size_cycle, class... Ls>
auto combined(Ls... loaders) {
  constexpr bool side_by_side = Mode != CombineMode::sequential;
  static_assert(side_by_side,
                "[fulgurite.data.sequential] a fit cannot take combined loaders one after the other: choose min_size, "
                "max_size or max_size_cycle; for evaluation pass a std::tuple");
  return Combined<Mode, std::unwrap_reference_t<Ls>...>(std::move(loaders)...);
}

}  // namespace fulgurite::data
