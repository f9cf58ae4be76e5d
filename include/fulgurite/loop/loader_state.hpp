#pragma once
// The position of a run in its training loader, and how a resumed run restores it. See docs/resume.md, Data.

#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/sentences.hpp>

namespace fulgurite::loop {

// The state at the start of a validation inside fit. A file that is written during the validation, or after it failed,
// holds this state: a fit that resumes from the file repeats the whole validation.

/// The state before the validation that a fit repeats when it resumes from a file written now; nullptr if it repeats
/// none.
template <class R>
BeforeValidation<R> const* before_repeated_validation(State<R> const& run) {
  bool const repeated = run.before_validation && run.point.at == At::after_batch &&
                        !run.due.notified.template failed<hook::on_validation_end>();
  return repeated ? &*run.before_validation : nullptr;
}

/// Saves one of the parts from before the validation. Returns false if the part was not kept or no validation is
/// repeated: then save the current state.
template <class R, class Archive>
bool add_before_validation(State<R> const& run, std::string_view part, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->parts.add_to(archive, part); })
    if (auto const* const before = before_repeated_validation(run)) return before->parts.add_to(archive, part);
  return false;
}
/// Does the same for the callback of that name.
template <class R, class Archive>
bool add_callback_before_validation(State<R> const& run, std::string_view name, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->callbacks.add_to(archive, name); })
    if (auto const* const before = before_repeated_validation(run)) return before->callbacks.add_to(archive, name);
  return false;
}

/// The random state with which a resumed fit continues.
template <class R, class Archive>
void fold_random(State<R>& run, Archive& archive) {
  auto random = R::Backend::rng_state();
  if constexpr (!Archive::loading)
    if (auto const* const before = before_repeated_validation(run)) random = before->random;
  archive.child("random", random);
  if constexpr (Archive::loading) random.restore();
}

/// True if a loader saves its own position, counting the batches that were passed with `++`. The loops move past a
/// batch of such a loader as soon as its step is over, so that it saves what was trained on.
template <class L>
concept KeepsPlace = LoaderLike<L> && Stateful<L, ArchiveProbe> && !Jumps<L>;

/// True if there is a data module with a state, and it is not the model itself.
template <class R, class Source, class Archive,
          class M = std::remove_cvref_t<decltype(std::declval<Source&>().module())>>
inline constexpr bool loads_data_module = Stateful<M, Archive> && !std::is_same_v<M, typename R::Model>;

template <class R, class Source, class Archive>
void fold_data_module(Source& source, Archive& archive) {
  if constexpr (loads_data_module<R, Source, Archive>)
    if (!lacks(archive, "data_module")) archive.child("data_module", source.module());
}

/// For a file that has no state of the data module. Warns if the module has one.
template <class R, class Source>
void keep_own_data_state(State<R>& run, Source& source) {
  using Memory = typename R::Backend::RunFile::Memory;
  if constexpr (loads_data_module<R, Source, typename Memory::Saver>) {
    Memory memory;
    memory.save([&](auto& archive) { source.module().state(archive); });
    if (memory.holds_nothing()) return;
    run.warn_each("fulgurite.resume.data_state",
                  "the file keeps nothing of a data module, so this one stays as it is: its means, categories or "
                  "classes may be others than those that the model was trained on");
  }
}

/// The data module in a file of the run. If the program has no module, the file's entries of one count as unread; a
/// module that has saved nothing is not missed.
template <class R, class Source, class Archive>
void fold_data_module_of_file(State<R>& run, Source& source, Archive& archive) {
  if (add_before_validation(run, "data_module", archive)) return;
  fold_data_module<R>(source, archive);
  if constexpr (Archive::loading) {
    if (lacks(archive, "data_module")) keep_own_data_state(run, source);
    else if constexpr (!loads_data_module<R, Source, Archive>) archive.child("data_module", [](auto&) {});
  }
}

/// True if the position of a loader can be restored: it has resume_at, saves its position, or has the same batches in
/// each pass. A view cannot declare anything itself.
template <class L>
inline constexpr bool loader_remembers =
    Jumps<L> || StoredBatches<L> || std::ranges::view<std::remove_const_t<L>> || Remembers<std::remove_const_t<L>>;
/// The same for one of several loaders in a loader, which begins each of them at a batch: a saved position is not
/// enough.
template <class L>
inline constexpr bool part_remembers = loader_remembers<L> && !KeepsPlace<L>;
/// True if all loaders in such a loader remember.
template <class Parts>
inline constexpr bool wrapped_remember = true;
template <class... Ls>
inline constexpr bool wrapped_remember<std::tuple<Ls...>> = (part_remembers<Ls> && ...);
template <WrapsLoaders L>
  requires Jumps<L>
inline constexpr bool loader_remembers<L> = wrapped_remember<typename L::WrappedLoaders>;

template <class Loaders>
inline constexpr bool any_keeps_place = false;
template <class... Ls>
inline constexpr bool any_keeps_place<std::tuple<Ls...>> = (KeepsPlace<std::remove_reference_t<Ls>> || ...);

/// True if the position of each loader of a fit can be restored.
template <class Source>
inline constexpr bool all_remember_place = [] {
  bool all = true;
  if constexpr (Source::trains)
    all = loader_remembers<std::remove_reference_t<decltype(std::declval<Source&>().train())>>;
  if constexpr (Source::template evaluates<hook::val_dataloader>)
    all = all && []<class... Ls>(std::type_identity<std::tuple<Ls...>>) {
      return (loader_remembers<std::remove_reference_t<Ls>> && ...);
    }(std::type_identity<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>{});
  return all;
}();

/// True if the training loader or a validation loader has a state.
template <class Source, class Archive>
inline constexpr bool loaders_have_state = [] {
  bool has = false;
  if constexpr (Source::trains)
    has = Stateful<std::remove_reference_t<decltype(std::declval<Source&>().train())>, Archive>;
  if constexpr (Source::template evaluates<hook::val_dataloader>)
    has = has || any_keeps_place<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>;
  return has;
}();

/// True if the data have a state that a file holds besides the run's own.
template <class R, class Source, class Archive>
inline constexpr bool data_has_state = [] {
  bool has = loads_data_module<R, Source, Archive>;
  if constexpr (Source::trains)
    has = has || KeepsPlace<std::remove_reference_t<decltype(std::declval<Source&>().train())>>;
  if constexpr (Source::template evaluates<hook::val_dataloader>)
    has = has || any_keeps_place<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>;
  return has;
}();

/// True for a loader that a resumed run reads from its beginning.
template <class L>
concept ReadAnew = LoaderLike<L> && !Jumps<L> && !KeepsPlace<L>;

/// Begins a pass over a loader whose first `consumed` batches were trained on before. A loader that neither has
/// resume_at nor saves its position is read from its beginning; a warning is given if that may take long. An iterator
/// of a sized loader stays at the last of these batches: the next one is then made in the usual place, after the random
/// state was set.
template <class R, class Loader>
auto begin_at(State<R>& run, Loader& loader, long consumed) {
  if constexpr (Jumps<Loader>) {
    loader.resume_at(consumed);  // also for 0: a window that is repeated may be the first
    return std::begin(loader);
  } else if constexpr (KeepsPlace<Loader>) {
    return std::begin(loader);
  } else {
    auto it = std::begin(loader);
    if (consumed != 0 && !StoredBatches<Loader>)
      run.warn("fulgurite.resume.skips",
               "the training loader has neither resume_at(batch) nor state(archive): its first " +
                   std::to_string(consumed) + " batches are made once more and left out");
    auto const stop = std::end(loader);
    long const last = SizedLoader<Loader> && consumed != 0 ? consumed - 1 : consumed;
    for (long b = 0; b != last; ++b, ++it)
      if (!(it != stop)) refuse_short(consumed, b);
    if (consumed != 0 && !(it != stop)) refuse_short(consumed, last);
    return it;
  }
}

/// Whether a batch is the last of its pass, for loaders that know before its step.
struct KnownEnd {
  static constexpr bool late = false;
  bool last;
  bool before_step() const { return last; }
  bool after_step() const { return last; }
};

/// For loaders that must not be read ahead. `after_step()` moves to the next batch to find out whether this one was the
/// last; the current batch may then be invalid. Before that, only a limit can tell.
template <class Iterator, class Stop, class Reads>
class EndFoundLate {
 public:
  static constexpr bool late = true;
  EndFoundLate(Iterator& at, Stop const& stop, bool limit_reached, Reads const& reads)
      : at_(at), stop_(stop), known_(limit_reached), last_(limit_reached), reads_(reads) {}
  EndFoundLate(EndFoundLate const&) = delete;
  EndFoundLate& operator=(EndFoundLate const&) = delete;

  bool before_step() const { return known_ && last_; }
  bool after_step() {
    if (!std::exchange(known_, true))
      reads_.more([this]() __attribute__((always_inline)) {
        ++at_;
        last_ = !(at_ != stop_);
      });
    return last_;
  }

 private:
  Iterator& at_;
  Stop const& stop_;
  bool known_, last_;
  [[no_unique_address]] Reads reads_;
};

/// For sized loaders that save their position: the iterator moves past the last batch, too, so that the saved position
/// is behind it.
template <class Iterator, class Reads>
class MovesPast {
 public:
  static constexpr bool late = false;
  MovesPast(Iterator& at, bool last, Reads const& reads) : at_(at), last_(last), reads_(reads) {}
  MovesPast(MovesPast const&) = delete;
  MovesPast& operator=(MovesPast const&) = delete;

  bool before_step() const { return last_; }
  bool after_step() {
    if (!std::exchange(moved_, true)) reads_.more([this]() __attribute__((always_inline)) { ++at_; });
    return last_;
  }

 private:
  Iterator& at_;
  bool last_, moved_ = false;
  [[no_unique_address]] Reads reads_;
};

/// The position in a pass.
struct PassPlace {
  long batch = 0;      ///< index of the next batch
  bool used = false;   ///< for a sized loader: the iterator is still at the previous batch
  bool empty = false;  ///< the loader had no batch
};

/// Calls f(batch, index, end) for each remaining batch up to `limit`, or with `One` for the next one only. `f` returns
/// true to continue; it must return false if `end.after_step()` is true. This function returns true if the pass
/// continues. A loader without a size is read one batch ahead only if it promises that batches stay valid. Calls to the
/// loader run through `reads`, so that a profiler can time them.
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

/// A pass that can be left after any batch and continued later.
template <class Loader>
class BatchPass {
 public:
  using Iterator = decltype(std::begin(std::declval<Loader&>()));

  BatchPass(Loader& loader, std::optional<long> limit) : BatchPass(std::begin(loader), loader, limit, 0) {}
  /// A pass that continues at batch `first`, from the result of `begin_at`.
  BatchPass(Iterator at, Loader& loader, std::optional<long> limit, long first)
      : it_(std::move(at)),
        stop_(std::end(loader)),
        limit_(limit),
        place_{.batch = first, .used = first != 0 && SizedLoader<Loader> && ReadAnew<Loader>} {}

  /// The next batch, or without `One` all remaining ones. `f` is taken by value, and in the second case iterators are
  /// local: so the loop's variables can stay in registers.
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
  /// True if a finished pass has left batches in its loader. Known only for loaders that save their position.
  bool has_more() const { return has_more_; }
  bool is_empty() const { return place_.empty; }

 private:
  Iterator it_;
  decltype(std::end(std::declval<Loader&>())) stop_;
  std::optional<long> limit_;
  PassPlace place_;
  bool has_more_ = false;
};

/// Runs a whole pass, up to `limit` batches. Returns true if there was a batch.
template <class Loader, class F, class Reads = hook::Untimed>
bool each_batch(Loader& loader, std::optional<long> limit, F f, Reads const& reads = {}) {
  if (limit && *limit == 0) return false;
  auto it = reads.more([&] { return std::begin(loader); });
  auto const stop = std::end(loader);
  PassPlace place;
  walk<Loader, false>(it, stop, place, limit, f, reads);
  return !place.empty;
}

/// Calls f(loader, position) for each loader of a tuple of references.
template <class Loaders, class F>
void each_loader(Loaders& loaders, F&& f) {
  each_of(loaders, [&, i = std::size_t{0}](auto& loader) mutable { f(loader, i++); });
}

}  // namespace fulgurite::loop
