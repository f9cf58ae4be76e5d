#pragma once
// The requirements for loaders and data modules; which loaders may be read ahead.

#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <tuple>
#include <type_traits>

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

// A loader's report about the time that the loop waited for its batches.

/// About a loader's last pass: the seconds that the loop waited for batches, the seconds of the whole pass, the average
/// number of processors that the process kept busy meanwhile, and the loader's workers.
struct Waited {
  double seconds = 0, pass = 0, busy = 0;
  int workers = 0;
};

/// A loader that reports waiting times. Yours may, too: if the loop waits for a training loader while processors are
/// idle, a warning says so, once per fit.
template <class L>
concept ReportsWaiting = requires(L const& loader) {
  { loader.waited() } -> std::convertible_to<Waited>;
};

/// A loader: yields batches, epoch after epoch; each `begin()` starts an epoch. Optional members: `set_epoch(long)`,
/// called before each epoch, and `state(archive)`.
///
/// A loader need not keep a batch beyond the next `++`, and may compute it from what the model has just learned: the
/// loops request the next batch only after the step and its `on_train_batch_end`. See `BatchesStayValid` for loaders
/// that promise more.
template <class L>
concept LoaderLike = requires(L& loader) {
  { std::begin(loader) != std::end(loader) } -> std::convertible_to<bool>;
  *std::begin(loader);
};

/// A loader whose batches arrive while the program runs, from a queue or a device. `batch_is_ready()` returns true if
/// the next batch can be taken without waiting, and it is known whether another one follows. `advance` of an open fit
/// asks it; `trainer.fit` does not, and waits in the loader.
template <class L>
concept MayWait = requires(L& loader) {
  { loader.batch_is_ready() } -> std::convertible_to<bool>;
};

/// A dataset that has samples by index, but no batches. A loader makes them.
template <class D>
concept IndexedSamples = !LoaderLike<D> && requires(D const& dataset) { dataset.size(); } &&
                         (requires(D const& dataset) { dataset.get(0); } || requires(D const& dataset) { dataset[0]; });

/// A loader that knows its number of batches. Then fractions of it can be requested, and its last batch is known
/// without reading ahead.
template <class L>
concept SizedLoader = LoaderLike<L> && requires(L& loader) {
  { loader.size() } -> std::integral;
};

namespace loop {

/// True if the iterator itself declares that its range can be iterated again. What the standard library infers for an
/// iterator without a declaration does not count.
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
/// True if a loader takes the number of the epoch whose batches it yields.
template <class L>
concept TakesEpoch = hook::set_epoch::accepts<L, long>;

/// True if the next pass of a loader can be set to begin at a given batch.
template <class L>
concept Jumps = hook::resume_at::accepts<L, long>;

/// True for a loader that holds other loaders, forwards to them, and lists their types: a function that one of them
/// lacks is missing there, too.
template <class L>
concept WrapsLoaders = requires { typename L::WrappedLoaders; };

template <class L>
consteval bool stores_batches() {
  if constexpr (!Container<L>) return false;
  else if constexpr (!WrapsLoaders<L>) return Container<L const>;  // a begin() that is not const may shuffle
  else
    return []<class... Ls>(std::type_identity<std::tuple<Ls...>>) {
      return (stores_batches<Ls>() && ...);
    }(std::type_identity<typename L::WrappedLoaders>{});
}

template <class L>
consteval bool batches_stay_valid() {
  using Loader = std::remove_cvref_t<L>;
  if constexpr (requires { Loader::batches_stay_valid; }) return Loader::batches_stay_valid;
  else return Container<Loader>;
}

}  // namespace loop

/// A loader that stores its batches: a std::vector, a list, an array. Each pass gives the same ones in the same order.
/// A view does not count, since it may compute what it yields, nor does a class without a const `begin()`, which may
/// shuffle what it stores.
template <class L>
concept StoredBatches = LoaderLike<L> && loop::stores_batches<L>();

/// A loader whose next batch may be requested before the step on the current one. Both stay as they were made until the
/// second `++` after each: no memory is reused for the next batch, and no batch depends on what a step does to the
/// model.
///
/// Containers of batches keep that promise, and so do this library's loaders of data sets. Your loader gives it by
/// `static constexpr bool batches_stay_valid = true;`. An unsized loader then gets one batch of lookahead, so that
/// `ctx.is_last_batch()` is known inside the last step. Otherwise the end is found after the last batch's
/// `on_train_batch_end`, and the work of an epoch's end is done then (a short window is stepped, schedules move,
/// validation runs), with the same results. A loader with `size()` is never read ahead.
template <class L>
concept BatchesStayValid = LoaderLike<L> && loop::batches_stay_valid<L>();

/// A loader that can yield the same batches in every epoch, and shuffle again: overfit_batches needs it.
/// `in_order(bool)` may return a bool: false if some part of the loader did not follow.
template <class L>
concept KeepsOrder = requires(L& loader, bool on) { loader.in_order(on); };

/// A loader, or a data module for its loaders, with a batch size that can be set: by members `long batch_size() const`
/// and `void set_batch_size(long)`, or functions `batch_size(x)` and `set_batch_size(x, long)` in its namespace. A new
/// size takes effect at the next `begin()`, which starts an epoch.
template <class L>
concept SettableBatchSize = loop::sizes_by_members<L> || loop::sizes_by_functions<L>;

/// A loader that can be sharded over processes that train one model: by a member `void shard(int rank, int world, bool
/// training)`, or a function `shard(loader, rank, world, training)` in its namespace. From the next `begin()` it yields
/// the part of that rank. In training all ranks should have the same number of batches, or each epoch ends with the
/// shortest; in evaluation no sample should be in two parts, since metrics are over all ranks. When the call that has
/// sharded it ends, `shard(0, 1, training)` gives it all samples again.
template <class L>
concept ShardableLoader = loop::shards_by_member<L> || loop::shards_by_function<L>;

/// A loader that declares `static constexpr bool shards_itself = true`: each process receives or makes its own part.
template <class L>
concept ShardsItself = requires { requires std::remove_cvref_t<L>::shards_itself; };

namespace loop {

/// Makes the loader yield the part of one rank.
template <ShardableLoader L>
void shard_of(L& loader, int rank, int world, bool training) {
  if constexpr (shards_by_member<L>) loader.shard(rank, world, training);
  else shard(loader, rank, world, training);
}

/// The index, among the samples of all processes, of this process's i-th sample, if the loader's `share()` says which
/// part of a common order it takes; i itself for any other loader.
template <class L>
long place_in_loader(L const& loader, long i) {
  if constexpr (requires { loader.share().place(std::size_t{}); })
    return static_cast<long>(loader.share().place(static_cast<std::size_t>(i)));
  else return i;
}

/// The batch size as set.
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

/// Returns true if each epoch of the loader has the same batches from now on, as far as that is known.
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

/// A data module: provides loaders by `train_dataloader()`, `val_dataloader()`, `test_dataloader()`,
/// `predict_dataloader()`. A model may be its own data module.
template <class D>
concept DataModuleLike = hook::train_dataloader::accepts<D> || hook::val_dataloader::accepts<D> ||
                         hook::test_dataloader::accepts<D> || hook::predict_dataloader::accepts<D>;

namespace loop {

/// An argument that is read as a loader. One with loaders is a data module, also where it can be iterated over, since
/// its elements are samples, or the layers of a model, and where it is const, which is refused as a data module.
template <class D>
concept ReadItself = LoaderLike<D> && !DataModuleLike<std::remove_const_t<D>>;

}  // namespace loop

}  // namespace fulgurite
