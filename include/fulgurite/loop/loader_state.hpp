#pragma once
// How far a training loader is, and the way back there. See docs/resume.md, Data.

#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/each_of.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/call.hpp>
#include <fulgurite/loop/before_validation.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

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

[[noreturn]] inline void refuse_short(long consumed, long had) {
  throw Error("fulgurite.resume.short_loader", "the run stopped after " + std::to_string(consumed) +
                                                   " batches of an epoch that was to go on, and the loader has " +
                                                   std::to_string(had) + " now: resume with the same data and limits");
}

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

}  // namespace fulgurite::loop
