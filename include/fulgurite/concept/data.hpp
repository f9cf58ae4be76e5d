#pragma once
// What makes a loader, and a data module; which loaders may be read ahead.

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

// What a loader tells of the time that the loop spent waiting for its batches.

/// Of a loader's last pass: seconds that the loop waited for batches, seconds that the pass took, how many processors
/// the whole process kept busy meanwhile, and the loader's workers.
struct Waited {
  double seconds = 0, pass = 0, busy = 0;
  int workers = 0;
};

/// A loader that can tell it. One of yours may: a training loader that lets the loop wait while processors are idle is
/// then spoken of, once a fit.
template <class L>
concept TellsWaiting = requires(L const& loader) {
  { loader.waited() } -> std::convertible_to<Waited>;
};

/// Batches, epoch after epoch: each `begin()` starts an epoch. Optional: `set_epoch(long)`, called before each epoch,
/// and `state(archive)`.
///
/// A loader need not keep a batch beyond the next `++`, and may make it from what the model has just learned: the loops
/// ask for the next batch only when the step and its `on_train_batch_end` are over. See `BatchesStayValid` for loaders
/// that promise more.
template <class L>
concept LoaderLike = requires(L& loader) {
  { std::begin(loader) != std::end(loader) } -> std::convertible_to<bool>;
  *std::begin(loader);
};

/// Has samples by index, as a dataset has, and no batches. A loader makes them.
template <class D>
concept IndexedSamples = !LoaderLike<D> && requires(D const& dataset) { dataset.size(); } &&
                         (requires(D const& dataset) { dataset.get(0); } || requires(D const& dataset) { dataset[0]; });

/// Knows its number of batches; parts of it can then be asked for, and its last batch is known without reading ahead.
template <class L>
concept SizedLoader = LoaderLike<L> && requires(L& loader) {
  { loader.size() } -> std::integral;
};

namespace loop {

/// The iterator says itself that it can go over its range again. What the standard library infers for an iterator that
/// says nothing is no statement of its author.
template <class I>
inline constexpr bool says_forward = std::is_pointer_v<I>;
template <class I>
  requires requires { typename I::iterator_category; }
inline constexpr bool says_forward<I> = std::derived_from<typename I::iterator_category, std::forward_iterator_tag>;

template <class L>
concept Container = requires(L& loader) {
  requires std::forward_iterator<std::remove_cvref_t<decltype(std::begin(loader))>>;
  requires says_forward<std::remove_cvref_t<decltype(std::begin(loader))>>;
  requires std::is_lvalue_reference_v<decltype(*std::begin(loader))>;
} && !std::ranges::view<std::remove_cv_t<L>>;

template <class L>
concept sizes_by_members = requires(L& loader, L const& asked, long size) {
  loader.set_batch_size(size);
  { asked.batch_size() } -> std::convertible_to<long>;
};
template <class L>
concept sizes_by_functions = requires(L& loader, L const& asked, long size) {
  set_batch_size(loader, size);
  { batch_size(asked) } -> std::convertible_to<long>;
};

template <class L>
concept shards_by_member = requires(L& loader, bool training) { loader.shard(0, 1, training); };
template <class L>
concept shards_by_function = requires(L& loader, bool training) { shard(loader, 0, 1, training); };
template <class L>
concept says_shards_itself = requires { requires std::remove_cvref_t<L>::shards_itself; };

template <class L>
consteval bool batches_stay_valid() {
  using Loader = std::remove_cvref_t<L>;
  if constexpr (requires { Loader::batches_stay_valid; }) return Loader::batches_stay_valid;
  else return Container<Loader>;
}

}  // namespace loop

/// The loader holds its batches: a std::vector, a list, an array; each pass gives the same ones in the same order. A
/// view does not count, since what it yields may be made on the way.
template <class L>
concept StoredBatches = LoaderLike<L> && loop::Container<L>;

/// A batch may be asked for before the step on the one before it, and both stay as they were made until the second `++`
/// after each: no memory is used again for the next batch, and no batch depends on what a step does to the model.
///
/// Containers of batches keep that promise, and so do this library's loaders of data sets. A loader of yours gives it
/// by `static constexpr bool batches_stay_valid = true;`. What it buys an unsized loader is one batch of lookahead, so
/// that `ctx.is_last_batch()` is known inside the last step. Without it the end is found out after the last batch's
/// `on_train_batch_end`; what the epoch's end asks for is then done there (a short window is stepped, schedules move,
/// validation runs) with the same results. A loader with `size()` is never read ahead.
template <class L>
concept BatchesStayValid = LoaderLike<L> && loop::batches_stay_valid<L>();

/// Can be told to yield the same batches in every epoch, and to shuffle again: what overfit_batches asks for.
/// `in_order(bool)` may return a bool: false where some part of it could not be told.
template <class L>
concept KeepsOrder = requires(L& loader, bool on) { loader.in_order(on); };

/// A loader, or a data module for its loaders, whose batches can be given another number of rows: members
/// `long batch_size() const` and `void set_batch_size(long)`, or functions `batch_size(x)` and `set_batch_size(x,
/// long)` that are found in its namespace. What is set holds from the next `begin()` on, which starts an epoch.
template <class L>
concept SettableBatchSize = loop::sizes_by_members<L> || loop::sizes_by_functions<L>;

/// Can be shared out between processes that train one model: by a member `void shard(int rank, int world, bool
/// training)`, or by a function `shard(loader, rank, world, training)` that is found in its namespace. It then yields
/// the part of that rank, from the next `begin()` on. In training all ranks should have equally many batches, or each
/// epoch ends with the shortest; in evaluation no sample should be in two parts, since metrics are of all ranks.
template <class L>
concept ShardableLoader = loop::shards_by_member<L> || loop::shards_by_function<L>;

/// Says `static constexpr bool shards_itself = true`: each process was given, or makes, its own part.
template <class L>
concept ShardsItself = loop::says_shards_itself<L>;

namespace loop {

/// The part of one rank.
template <ShardableLoader L>
void shard_of(L& loader, int rank, int world, bool training) {
  if constexpr (shards_by_member<L>) loader.shard(rank, world, training);
  else shard(loader, rank, world, training);
}

/// The place of this process's i-th sample among those of all processes, of a loader whose `share()` says which part of
/// a common order it takes; i itself of any other.
template <class L>
long place_in_loader(L const& loader, long i) {
  if constexpr (requires { loader.share().place(std::size_t{}); })
    return static_cast<long>(loader.share().place(static_cast<std::size_t>(i)));
  else return i;
}

/// The rows of a batch, as they are set.
template <SettableBatchSize L>
long batch_size_of(L const& loader) {
  if constexpr (sizes_by_members<L>) return static_cast<long>(loader.batch_size());
  else return static_cast<long>(batch_size(loader));
}
template <SettableBatchSize L>
void set_batch_size_of(L& loader, long size) {
  if constexpr (sizes_by_members<L>) loader.set_batch_size(size);
  else set_batch_size(loader, size);
}

/// Whether each epoch of the loader has the same batches from now on, as far as it can be told or known.
template <class L>
bool keep_order(L& loader, bool on) {
  if constexpr (!KeepsOrder<L>) return StoredBatches<L>;
  else if constexpr (requires {
                       { loader.in_order(on) } -> std::same_as<bool>;
                     })
    return loader.in_order(on);
  else return loader.in_order(on), true;
}

}  // namespace loop

/// Hands out loaders: `train_dataloader()`, `val_dataloader()`, `test_dataloader()`, `predict_dataloader()`; a model
/// may be its own.
template <class D>
concept DataModuleLike = hook::train_dataloader::accepts<D> || hook::val_dataloader::accepts<D> ||
                         hook::test_dataloader::accepts<D> || hook::predict_dataloader::accepts<D>;

}  // namespace fulgurite
