#pragma once
// How far a training loader is, and the way back there. See docs/resume.md, Data.

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
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

// What a validation inside fit begins with. A file that is written while it runs, or after it has failed, holds this: a
// fit that resumes from the file runs the whole validation again.

/// The state before the validation that a fit runs again when it resumes from a file of this moment; nullptr where it
/// runs none again.
template <class R>
BeforeValidation<R> const* before_repeated_validation(State<R> const& run) {
  bool const repeated = run.before_validation && run.point.at == At::after_batch &&
                        !run.due.heard.template failed<hook::on_validation_end>();
  return repeated ? &*run.before_validation : nullptr;
}

/// Saves one of the parts as it was then. False where it was not kept, or nothing is repeated: save what is there now.
template <class R, class Archive>
bool add_before_validation(State<R> const& run, std::string_view part, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->parts.add_to(archive, part); })
    if (auto const* const before = before_repeated_validation(run)) return before->parts.add_to(archive, part);
  return false;
}
/// The same for the callback of that name.
template <class R, class Archive>
bool add_callback_before_validation(State<R> const& run, std::string_view name, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->callbacks.add_to(archive, name); })
    if (auto const* const before = before_repeated_validation(run)) return before->callbacks.add_to(archive, name);
  return false;
}

/// The random numbers that a fit which resumes continues with.
template <class R, class Archive>
void fold_random(State<R>& run, Archive& archive) {
  auto random = R::Backend::rng_state();
  if constexpr (!Archive::loading)
    if (auto const* const before = before_repeated_validation(run)) random = before->random;
  archive.child("random", random);
  if constexpr (Archive::loading) random.restore();
}

/// It can be told at which batch its next pass begins.
template <class L>
concept Jumps = requires(L& loader) { loader.resume_at(long{}); };

/// It saves how far it is by itself, counting the batches that were moved past with `++`. The loops move past a batch
/// of such a loader as soon as its step is over, so that what it saves is what was trained on.
template <class L>
concept KeepsPlace = LoaderLike<L> && Stateful<L, ArchiveProbe> && !Jumps<L>;

/// There is a data module with a state, and it is another object than the model.
template <class R, class Source, class Archive,
          class M = std::remove_cvref_t<decltype(std::declval<Source&>().module())>>
inline constexpr bool loads_data_module = Stateful<M, Archive> && !std::is_same_v<M, typename R::Model>;

template <class R, class Source, class Archive>
void fold_data_module(Source& source, Archive& archive) {
  if constexpr (loads_data_module<R, Source, Archive>)
    if (!lacks(archive, "data_module")) archive.child("data_module", source.module());
}

/// For a data module of which the file keeps nothing. Warns where the module keeps something.
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

/// The same in a file of the run. Where the program has no module, each entry that the file keeps of one is unread, and
/// a module that has saved nothing is not missed.
template <class R, class Source, class Archive>
void fold_data_module_of_file(State<R>& run, Source& source, Archive& archive) {
  if (add_before_validation(run, "data_module", archive)) return;
  fold_data_module<R>(source, archive);
  if constexpr (Archive::loading) {
    if (lacks(archive, "data_module")) keep_own_data_state(run, source);
    else if constexpr (!loads_data_module<R, Source, Archive>) archive.child("data_module", [](auto&) {});
  }
}

/// A loader of a fit whose place is found again: it jumps there, saves it, or has the same batches in each pass. A view
/// can be given no words.
template <class L>
inline constexpr bool loader_remembers =
    Jumps<L> || StoredBatches<L> || std::ranges::view<std::remove_const_t<L>> || Remembers<std::remove_const_t<L>>;

template <class Loaders>
inline constexpr bool any_keeps_place = false;
template <class... Ls>
inline constexpr bool any_keeps_place<std::tuple<Ls...>> = (KeepsPlace<std::remove_reference_t<Ls>> || ...);

/// The validation loaders whose passes differ by a state of their own, by their positions. Those that can jump begin
/// each pass anew: the loops tell them the epoch.
template <class R, class Source, class Archive>
void fold_validation_loaders(State<R>& run, Source& source, Archive& archive) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    if constexpr (any_keeps_place<decltype(source.template evaluation<hook::val_dataloader>())>) {
      if (!run.loading.validation_is_open || lacks(archive, "val_loaders") ||
          add_before_validation(run, "val_loaders", archive))
        return;
      auto loaders = source.template evaluation<hook::val_dataloader>();
      archive.child("val_loaders", [&](auto& inner) {
        auto one = [&, i = 0](auto& loader) mutable {
          auto const name = std::to_string(i++);
          if constexpr (KeepsPlace<std::remove_reference_t<decltype(loader)>>)
            if (!lacks(inner, name)) inner.child(name, loader);
        };
        each_of(loaders, one);
      });
    }
  }
}

/// The training loader, where it keeps a state and has been requested; the loaders of validation. Inside an epoch the
/// file has to hold the place of a loader that can restore it by nothing else.
template <class R, class Source, class Archive>
void fold_loaders(State<R>& run, Source& source, Archive& archive) {
  if constexpr (Source::trains)
    if constexpr (Stateful<std::remove_reference_t<decltype(source.train())>, Archive>)
      if (run.loading.training_is_open &&
          ((KeepsPlace<std::remove_reference_t<decltype(source.train())>> && run.progress.is_inside_epoch()) ||
           !lacks(archive, "train_loader")))
        archive.child("train_loader", source.train());
  fold_validation_loaders(run, source, archive);
}

/// Whether each loader of a fit is found again where it was.
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

/// Whether the training loader or one of validation keeps a state.
template <class Source, class Archive>
inline constexpr bool loaders_have_state = [] {
  bool has = false;
  if constexpr (Source::trains)
    has = Stateful<std::remove_reference_t<decltype(std::declval<Source&>().train())>, Archive>;
  if constexpr (Source::template evaluates<hook::val_dataloader>)
    has = has || any_keeps_place<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>;
  return has;
}();

/// In place of the data of a fit that has ended: what they kept of themselves.
template <class R>
struct LeftData : GivenLoaders<NoModule, NoModule> {
  typename R::Backend::RunFile::Memory const& left;
};

/// Where in the data the run is.
template <class R, class Source, class Archive>
void fold_loader(State<R>& run, Source& source, Archive& archive) {
  if constexpr (std::is_same_v<Source, LeftData<R>>) source.left.add_to(archive);
  else fold_loaders(run, source, archive);
  if (lacks(archive, "pass_random")) return;
  if constexpr (Archive::loading) run.carried.pass_random.emplace(R::Backend::rng_state());
  if (run.carried.pass_random) archive.child("pass_random", *run.carried.pass_random);
}

/// Whether something of the data has a state that a file holds beside the run's own.
template <class R, class Source, class Archive>
inline constexpr bool data_has_state = [] {
  bool has = loads_data_module<R, Source, Archive>;
  if constexpr (Source::trains)
    has = has || KeepsPlace<std::remove_reference_t<decltype(std::declval<Source&>().train())>>;
  if constexpr (Source::template evaluates<hook::val_dataloader>)
    has = has || any_keeps_place<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>;
  return has;
}();

/// It is read from its beginning when a run goes on.
template <class L>
concept ReadAnew = LoaderLike<L> && !Jumps<L> && !KeepsPlace<L>;

[[noreturn]] void refuse_short(long consumed, long had);

/// Begins a pass over a loader whose first `consumed` batches were trained on before. One that neither jumps nor keeps
/// its place is read from its beginning, which is said where it may take long.
/// A sized one stays at the last of them: the next batch is made where it always is, after random numbers were set.
template <class R, class Loader>
auto begin_at(State<R>& run, Loader& loader, long consumed) {
  if constexpr (Jumps<Loader>) {
    loader.resume_at(consumed);  // at 0, too: a window that is done again may be the first
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

/// Whether a batch is the last of its pass, where that is known before its step.
struct KnownEnd {
  static constexpr bool late = false;
  bool last;
  bool before_step() const { return last; }
  bool after_step() const { return last; }
};

/// The same of a loader that must not be read ahead: `after_step()` moves on to the next batch and finds out. The batch
/// at hand may be gone then. Only a limit tells before.
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

/// The same for a sized loader that keeps its place: its iterator moves past the last batch, too, so that its place is
/// saved as behind it.
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

/// Where a pass is.
struct PassPlace {
  long batch = 0;      ///< index of the next one
  bool used = false;   ///< of a sized loader: its iterator is still at the batch before
  bool empty = false;  ///< the loader had no batch
};

[[noreturn]] void throw_short(long promised, long had);

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

/// Where a fit goes on that fails, or is written, inside a batch. After its step, while end hooks are told, it goes on
/// after them, where the loader says whether the batch was the last and does not keep its place by itself. Else a batch
/// is done again with all of its window: what it has added to the gradients cannot be told from what the batches before
/// it did. A loader that keeps its place cannot go back; the window begins at the next batch then.
template <class R, class Source>
void redo_window(State<R>& run, Source& source) {
  auto& progress = run.progress;
  if (run.point.at != At::before_batch) return;
  bool const stepped = !run.facts.left_out || run.point.counts;
  if (run.due.heard.template failed<hook::on_train_batch_end>()) {  // its step is made
    run.point = {.at = At::batch_end,
                 .last = run.facts.is_last_batch,
                 .counts = stepped,
                 .accumulating = run.facts.accumulating,
                 .began = true,
                 .observed = progress.global_step - (stepped && !run.facts.accumulating)};
    return;
  }
  bool told = run.facts.in_batch && run.facts.ended == progress.total_batches && !run.facts.end_unknown;
  if constexpr (Source::trains) told = told && !KeepsPlace<std::remove_reference_t<decltype(source.train())>>;
  if (told) {
    progress.batch = run.facts.batch_idx + 1;
    ++progress.total_batches;
    run.measured.train_board.fold();
    if (stepped && !run.facts.accumulating) progress.window_start = progress.batch;
  }
  // Where a window is over before its length, the step of what it holds follows the batch.
  bool flushing = !told && R::automatic && !run.facts.accumulating && progress.window_start != progress.batch;
  if constexpr (Source::trains) flushing = flushing && !KeepsPlace<std::remove_reference_t<decltype(source.train())>>;
  // The batch was over, and something after it has failed.
  if (run.facts.in_batch && progress.batch == run.facts.batch_idx + 1 && !flushing) {
    bool const counts = told ? stepped && !run.facts.accumulating : progress.window_start == progress.batch;
    run.point = {.at = told ? At::after_step : At::after_batch,
                 .last = run.facts.is_last_batch,
                 .counts = counts,
                 .accumulating = run.facts.accumulating,
                 .observed = progress.global_step - counts};
    return;
  }
  if constexpr (Source::trains)
    if constexpr (KeepsPlace<std::remove_reference_t<decltype(source.train())>>) {
      using Loader = std::remove_reference_t<decltype(source.train())>;
      if constexpr (BatchesStayValid<Loader> && !SizedLoader<Loader>) run.carried.slices = 0;  // it is past the batch
      progress.window_start = progress.batch;
      run.point.began |= run.facts.in_batch && progress.batch == 0;
      return;
    }
  progress.total_batches -= progress.batch - progress.window_start;
  progress.batch = progress.window_start;
  run.point.began |= run.facts.in_batch && progress.batch == 0;
  expect_rows(run.callbacks, run.due.rows_of_window(progress.total_batches));
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/loader_state.ipp>
#endif
