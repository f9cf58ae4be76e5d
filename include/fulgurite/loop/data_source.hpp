#pragma once
// The source of a run's batches: loaders given to fit, a data module, or the model itself. Each loader is requested
// once, when it is needed. What happens to its batches: the passes over the loader, and the way of a batch to its step.

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

/// Says that a validation_step without a loader, or a validation loader without a step, is on purpose:
/// `trainer.fit(model, data, NoValidation{})`.
struct NoValidation {};

/// Says that only callbacks use the predictions: `trainer.predict(model, data, DiscardPredictions{})` returns none.
struct DiscardPredictions {};

/// Stands for the data module if loaders were given directly.
struct NoModule {};

namespace loop {

/// Keeps the result of a loader factory: the object, or a pointer if the factory returns a reference.
template <class Returned>
class Kept {
 public:
  template <class Make>
  auto& get(Make&& make) {
    if (!kept_) {
      if constexpr (std::is_reference_v<Returned>) kept_ = &make();
      else kept_.emplace(make());
    }
    return *kept_;
  }
  void drop() {
    if constexpr (std::is_reference_v<Returned>) kept_ = nullptr;
    else kept_.reset();  // some loaders cannot be assigned, such as those with a lambda that captures
    fresh_ = true;
  }
  /// True until the loader is prepared, which ends it.
  bool& is_fresh() { return fresh_; }

 private:
  bool fresh_ = true;
  std::conditional_t<std::is_reference_v<Returned>, std::remove_reference_t<Returned>*,
                     std::optional<std::remove_reference_t<Returned>>>
      kept_{};
};

template <class T>
inline constexpr bool is_tuple = is_of<std::tuple, T>;

/// One evaluation loader, or a tuple of them, as a tuple of references.
template <class L>
auto as_tuple(L& loaders) {
  if constexpr (is_tuple<std::remove_const_t<L>>)
    return std::apply([](auto&... l) { return std::tuple<decltype(l)...>(l...); }, loaders);
  else return std::tuple<L&>(loaders);
}

/// Loaders that were given to the trainer.
template <class Train, class Eval>
struct GivenLoaders {
  static constexpr bool trains = !std::is_same_v<std::remove_const_t<Train>, NoModule>;
  template <class Hook>
  static constexpr bool evaluates =
      !std::is_same_v<std::remove_const_t<Eval>, NoModule> && !std::is_same_v<std::remove_const_t<Eval>, NoValidation>;
  Train& given_train;
  Eval& given_eval;
  NoModule none{};
  bool train_is_fresh = true, eval_is_fresh = true;

  auto& module() { return none; }
  /// A copy in the state before any loader was requested.
  GivenLoaders fresh() { return {given_train, given_eval}; }
  bool& is_train_fresh() { return train_is_fresh; }
  template <class Hook>
  bool& is_fresh() {
    return eval_is_fresh;
  }
  auto& train() { return given_train; }
  template <class Hook>
  auto evaluation() {
    return as_tuple(given_eval);
  }
};

/// True if the module has that function, and the function returns something.
template <class Hook, class Module>
consteval bool gives_loader() {
  if constexpr (Hook::template accepts<Module>) return !std::is_void_v<decltype(Hook::call(std::declval<Module&>()))>;
  else return false;
}

/// A data module, or a model with its own loaders. `Validates` is false if NoValidation was given.
template <class Module, bool Validates>
struct ModuleLoaders {
  template <class Hook>
  static consteval bool returns() {
    return gives_loader<Hook, Module>();
  }
  static constexpr bool trains = returns<hook::train_dataloader>();
  template <class Hook>
  static constexpr bool evaluates = returns<Hook>() && (Validates || !std::is_same_v<Hook, hook::val_dataloader>);

  Module& from;

  explicit ModuleLoaders(Module& data) : from(data) {}
  Module& module() { return from; }
  /// A copy in the state before any loader was requested.
  ModuleLoaders fresh() { return ModuleLoaders(from); }
  bool& is_train_fresh() { return train_.is_fresh(); }
  template <class Hook>
  bool& is_fresh() {
    return slot<Hook>()->is_fresh();
  }
  /// Makes the next call request the loader again (reload_dataloaders_every_n_epochs).
  void reload_training() { train_.drop(); }
  void reload_validation() { val_.drop(); }
  auto& train() {
    return train_.get([this]() -> decltype(auto) { return from.train_dataloader(); });
  }
  template <class Hook>
  auto evaluation() {
    return as_tuple(slot<Hook>()->get([this]() -> decltype(auto) { return Hook::call(from); }));
  }

 private:
  template <class Hook>
  static auto returned() {
    if constexpr (returns<Hook>()) return std::type_identity<decltype(Hook::call(std::declval<Module&>()))>{};
    else return std::type_identity<Nothing>{};
  }
  template <class Hook>
  using Returned = typename decltype(returned<Hook>())::type;

  template <class Hook>
  auto* slot() {
    if constexpr (std::is_same_v<Hook, hook::val_dataloader>) return &val_;
    else if constexpr (std::is_same_v<Hook, hook::test_dataloader>) return &test_;
    else return &predict_;
  }

  Kept<Returned<hook::train_dataloader>> train_;
  Kept<Returned<hook::val_dataloader>> val_;
  Kept<Returned<hook::test_dataloader>> test_;
  Kept<Returned<hook::predict_dataloader>> predict_;
};

// The source of batches made from the arguments of fit, validate, test or predict.

/// The source for one argument, which is a loader (for an evaluation also a tuple of them) or a data module.
template <class Data, bool Evaluation = false, class D = std::remove_reference_t<Data>>
using SourceOf =
    std::conditional_t<ReadItself<D> || (Evaluation && is_tuple<std::remove_const_t<D>>),
                       std::conditional_t<Evaluation, GivenLoaders<NoModule, D>, GivenLoaders<D, NoModule>>,
                       ModuleLoaders<D, true>>;
/// The source for two arguments: loaders, or a data module and NoValidation.
template <class D, class V>
using SourceOfTwo = std::conditional_t<ReadItself<D>, GivenLoaders<D, V>, ModuleLoaders<D, false>>;

template <class T>
inline constexpr bool is_waiver = std::is_same_v<std::remove_cvref_t<T>, NoValidation>;
/// True for a data module and a loader, if the data module has loaders itself.
template <class Data, class Val, class Source>
inline constexpr bool is_mixed = !ReadItself<std::remove_reference_t<Data>> && !is_waiver<Val> && Source::trains;

/// Makes the source for one argument; `none` stands for the missing second loader.
template <bool Evaluation = false, class D>
SourceOf<D, Evaluation> source_of(D& data, NoModule& none) {
  if constexpr (!Evaluation && ReadItself<D>) return {data, none};
  else if constexpr (ReadItself<D> || (Evaluation && is_tuple<std::remove_const_t<D>>)) return {none, data};
  else return SourceOf<D, Evaluation>(data);
}

// What a training step may return, and how to get its loss.

/// A tensor, or a struct with a tensor `.loss`.
template <class Backend, class T>
concept HoldsLoss = Backend::template is_value<T> || requires(T& result) {
  requires Backend::template is_value<std::remove_cvref_t<decltype(result.loss)>>;
};

/// What automatic optimization accepts: a loss, or an optional of one. An empty optional skips backward for that batch.
template <class Backend, class T>
concept StepOutput =
    HoldsLoss<Backend, T> || (is_optional<T> && requires { requires HoldsLoss<Backend, typename T::value_type>; });

/// The loss in a step's result; nullptr if the step returned none.
template <class Backend, class T>
auto* loss_of(T& result) {
  if constexpr (is_optional<std::remove_const_t<T>>) return result ? loss_of<Backend>(*result) : nullptr;
  else if constexpr (Backend::template is_value<std::remove_const_t<T>>) return &result;
  else return &result.loss;
}

/// The outputs that end hooks receive if the step returns a plain loss.
template <class Value>
struct LossOutput {
  Value loss{};
};

template <class Backend, class T>
struct OutputsOf {
  using type = std::conditional_t<Backend::template is_value<T>, LossOutput<T>, T>;
};
template <class Backend, class T>
struct OutputsOf<Backend, std::optional<T>> {
  using type = std::optional<typename OutputsOf<Backend, T>::type>;
};
struct NoOutput {};
template <class Backend>
struct OutputsOf<Backend, void> {
  using type = NoOutput;
};

/// The step's result, which is moved from, with the loss detached and divided by the window's length.
template <class Backend, class T>
auto outputs_of(T& result, double factor) {
  using Outputs = typename OutputsOf<Backend, T>::type;
  if constexpr (is_optional<T>) {
    return result ? Outputs(outputs_of<Backend>(*result, factor)) : Outputs{};
  } else if constexpr (Backend::template is_value<T>) {
    return Outputs{Backend::detached(result, factor)};
  } else {
    Outputs outputs = std::move(result);
    outputs.loss = Backend::detached(outputs.loss, factor);
    return outputs;
  }
}

template <class M, class Slice, class Ctx>
concept HasRecurrentStep =
    Recurrent<M> && (hook::training_step::accepts<M, Slice, std::optional<typename M::Hidden> const, Ctx> ||
                     hook::training_step::accepts<M, Slice, std::optional<typename M::Hidden> const>);

/// Calls the step in the form that the model declares.
template <class Hook, class Model, class Batch, class Ctx>
decltype(auto) call_step(Model& model, Batch& batch, Ctx& ctx) {
  if constexpr (Hook::template accepts<Model, Batch, Ctx>) return Hook::call(model, batch, ctx);
  else return Hook::call(model, batch);
}

/// Calls training_step in the form that the model declares.
template <class M, class Batch, class Hidden, class Ctx>
decltype(auto) call_training_step(M& model, Batch& batch, [[maybe_unused]] Hidden const& hidden, Ctx& ctx) {
  if constexpr (!Recurrent<M>) return call_step<hook::training_step>(model, batch, ctx);
  else if constexpr (hook::training_step::accepts<M, Batch, Hidden const, Ctx>)
    return hook::training_step::call(model, batch, hidden, ctx);
  else return hook::training_step::call(model, batch, hidden);
}

/// The slices of a batch, in order of time, by the model's `tbptt_split_batch(batch, k, ctx)` or else by the backend.
template <class R, class Batch, class Ctx>
auto time_slices(typename R::Model& model, Batch& batch, long length, Ctx& ctx) {
  if constexpr (hook::tbptt_split_batch::named<typename R::Model>)
    return call_override<hook::tbptt_split_batch>(model, ctx, batch, length);
  else return R::Backend::time_slices(batch, length);
}

// From a loader's batch to a step's argument: the transfer hooks, the move to the device, the precision of inputs.

/// Calls a transfer hook of the data module, or else of the model; or else moves the batch to the device, if that is
/// what the hook would do. References are passed through. The last argument, here and below, measures the call.
template <class Hook, class Module, class Model, class Strategy, class Ctx, class Batch, class Watch>
[[gnu::always_inline]] inline decltype(auto) transfer_stage(Module& module, Model& model, Strategy& strategy, Ctx& ctx,
                                                            Batch&& batch, Watch const&) {
  using B = std::remove_reference_t<Batch>;
  if constexpr (Overrides<Hook, Module, Ctx, B>) return call_override<Hook>(module, ctx, batch);
  else if constexpr (Overrides<Hook, Model, Ctx, B>) return call_override<Hook>(model, ctx, batch);
  else if constexpr (std::is_same_v<Hook, hook::transfer_batch_to_device>)
    return strategy.move(std::forward<Batch>(batch));
  else return std::forward<Batch>(batch);
}
/// Converts the batch's tensors to the type that the precision has for inputs.
template <class R, class Batch, class Watch>
[[gnu::always_inline]] inline decltype(auto) convert_input(State<R>& run, Batch& batch, Watch const&) {
  return R::Backend::convert_input(batch, run.parts.precision);
}

/// True if a distributed trainer shares out the samples of such a loader, unless its options say otherwise.
template <class R, class Loader>
inline constexpr bool shares_out = shares<R> && !splits_model<R> && ShardableLoader<Loader> && !ShardsItself<Loader>;

/// Gives a loader the part of this rank.
template <class R, class Loader>
void share_out(State<R>& run, Loader& loader, [[maybe_unused]] bool training) {
  if constexpr (shares_out<R, Loader>)
    if (run.asked.options.use_distributed_sampler)
      shard_of(loader, run.parts.strategy.rank(), run.parts.strategy.world(), training);
}

/// The same for a loader that says whose part it has: another trainer may have had it meanwhile.
template <class R, class Loader>
void share_out_again([[maybe_unused]] State<R>& run, [[maybe_unused]] Loader& loader, [[maybe_unused]] bool training) {
  if constexpr (requires { loader.share(); }) share_out(run, loader, training);
}

/// Prepares a loader each time that it was requested, as the options and the strategy require.
template <class R, class Loader>
void prepare_loader(State<R>& run, Loader& loader, [[maybe_unused]] bool training) {
  bool const ordered = run.asked.options.overfit_batches.has_value();
  if (!keep_order(loader, ordered) && ordered)
    run.warn("fulgurite.options.overfit_order",
             "overfit_batches takes the same first batches in every epoch, and a loader has no "
             "function to keep its order: give it `void in_order(bool)`, or make sure "
             "that it does not shuffle");
  share_out(run, loader, training);
  if constexpr (hook::process_dataloader::named<typename R::Strategy>)
    if (run.asked.options.use_distributed_sampler) run.parts.strategy.process_dataloader(loader);
}

/// Passes the number of the epoch to a loader that takes it.
template <class Loader>
void notify_epoch([[maybe_unused]] Loader& loader, [[maybe_unused]] long epoch) {
  if constexpr (TakesEpoch<Loader>) loader.set_epoch(epoch);
}

/// The training loader, prepared as the options and the strategy require, so that its size is that of the training.
template <class R, class Source>
auto& training_loader(State<R>& run, Source& source) {
  auto& loader = source.train();
  if (std::exchange(source.is_train_fresh(), false)) prepare_loader(run, loader, true);
  return loader;
}

/// The evaluation loaders of one kind as a tuple of references, prepared.
template <class Hook, class R, class Source>
auto evaluation_loaders(State<R>& run, Source& source) {
  auto loaders = source.template evaluation<Hook>();
  bool const is_fresh = std::exchange(source.template is_fresh<Hook>(), false);
  each_of(loaders,
          [&](auto& loader) { is_fresh ? prepare_loader(run, loader, false) : share_out_again(run, loader, false); });
  return loaders;
}

template <class Source>
struct LoaderTypes {
  static auto training() {
    if constexpr (Source::trains) return std::type_identity<std::tuple<decltype(std::declval<Source&>().train())>>{};
    else return std::type_identity<std::tuple<>>{};
  }
  static auto validation() {
    if constexpr (Source::template evaluates<hook::val_dataloader>)
      return std::type_identity<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>{};
    else return std::type_identity<std::tuple<>>{};
  }
};
/// The loaders of a fit, as tuples of references: the training loader, if there is one, and those of validation.
template <class Source>
using TrainingTypes = typename decltype(LoaderTypes<Source>::training())::type;
template <class Source>
using ValidationTypes = typename decltype(LoaderTypes<Source>::validation())::type;

/// True for batches of type std::optional, of which a loader may leave some out.
template <class Raw>
inline constexpr bool may_be_none = is_optional<std::remove_cvref_t<Raw>>;
template <class Raw>
constexpr bool is_none(Raw const& raw) {
  if constexpr (is_optional<Raw>) return !raw.has_value();
  else return false;
}
template <class Raw>
decltype(auto) present(Raw&& raw) {
  if constexpr (is_optional<std::remove_cvref_t<Raw>>) return *std::forward<Raw>(raw);
  else return std::forward<Raw>(raw);
}

/// Measures the size of the current batch. If it is 0, finds out whether the batch has tensors without rows.
template <class R, class Batch>
[[gnu::always_inline]] inline void measure(State<R>& run, Batch const& batch) {
  run.facts.batch_size = R::Backend::batch_size(batch);
  if (run.facts.batch_size == 0) [[unlikely]]
    run.facts.no_rows = R::Backend::holds_tensor(batch);
}

/// Calls `use(batch)` with the batch that the step receives; each stage's result lives until `use` returns. `moves`:
/// the action that the stages are.
template <class R, class Source, class Ctx, class Raw, class Use, class Moves = hook::Untimed>
[[gnu::always_inline]] inline decltype(auto) with_batch(State<R>& run, Source& source, Ctx& ctx, Raw&& raw, Use&& use,
                                                        Moves const& moves = {}) {
  auto& module = source.module();
  auto& model = *run.parts.model;
  auto& strategy = run.parts.strategy;
  auto&& before = transfer_stage<hook::on_before_batch_transfer>(module, model, strategy, ctx, std::forward<Raw>(raw),
                                                                 moves.more());
  auto&& moved = transfer_stage<hook::transfer_batch_to_device>(module, model, strategy, ctx, before, moves.one());
  auto&& after = transfer_stage<hook::on_after_batch_transfer>(module, model, strategy, ctx, moved, moves.more());
  auto&& batch = convert_input(run, after, moves.more());
  return use(batch);
}

// The passes over a loader, batch by batch.

/// True if a loader saves its own position, counting the batches that were passed with `++`. The loops move past a
/// batch of such a loader as soon as its step is over, so that it saves what was trained on.
template <class L>
concept KeepsPlace = LoaderLike<L> && Stateful<L, ArchiveProbe> && !Jumps<L>;

/// Begins a pass over a loader whose first `consumed` batches were trained on before. A loader that neither has
/// resume_at nor saves its position is read from its beginning; a warning is given if that may take long. An iterator
/// of a sized loader stays at the last of these batches: the next one is made later, after the random state was set.
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

/// The iterator's batch.
template <class Iterator, class Watch>
[[gnu::always_inline]] inline decltype(auto) read(Iterator& it, Watch const&) {
  return *it;
}
/// The batch with this index, of a loader that has promised `size` of them.
template <class Iterator, class Stop, class Watch>
[[gnu::always_inline]] inline decltype(auto) read_sized(Iterator& it, Stop const& stop, long size, long index,
                                                        Watch const&) {
  if (!(it != stop)) [[unlikely]]
    throw_short(size, index);
  return *it;
}
template <class Iterator, class Watch>
[[gnu::always_inline]] inline void move_on(Iterator& it, Watch const&) {
  ++it;
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
class EndFoundLate : Pinned {
 public:
  static constexpr bool late = true;
  EndFoundLate(Iterator& at, Stop const& stop, bool limit_reached, Reads const& reads)
      : at_(at), stop_(stop), known_(limit_reached), last_(limit_reached), reads_(reads) {}

  bool before_step() const { return known_ && last_; }
  bool after_step() {
    if (!std::exchange(known_, true)) {
      [[maybe_unused]] auto const watched = reads_.more();
      ++at_;
      last_ = !(at_ != stop_);
    }
    return last_;
  }

 private:
  Iterator& at_;
  Stop const& stop_;
  bool known_, last_;
  [[no_unique_address]] Reads reads_;
};

/// For sized loaders that save their position: the iterator moves past the last batch, too, and so does the position.
template <class Iterator, class Reads>
class MovesPast : Pinned {
 public:
  static constexpr bool late = false;
  MovesPast(Iterator& at, bool last, Reads const& reads) : at_(at), last_(last), reads_(reads) {}

  bool before_step() const { return last_; }
  bool after_step() {
    if (!std::exchange(moved_, true)) loop::move_on(at_, reads_.more());
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
/// continues. A loader without a size is read one batch ahead only if it promises that batches stay valid. `reads`: the
/// action as which a profiler measures the calls to the loader.
template <class Loader, bool One, class Iterator, class Stop, class F, class Reads>
[[gnu::always_inline]] inline bool walk(Iterator& it, Stop const& stop, PassPlace& place, std::optional<long> limit,
                                        F& f, Reads const& reads) {
  long& b = place.batch;
  if constexpr (SizedLoader<Loader> && KeepsPlace<Loader>) {
    for (;; ++b) {
      auto&& batch = loop::read_sized(it, stop, *limit, b, reads.one());
      MovesPast end(it, b + 1 == *limit, reads);
      if (!f(batch, b, end)) return false;
      if constexpr (One) return ++b, true;
    }
  } else if constexpr (SizedLoader<Loader>) {
    long const batches = *limit;
    if (std::exchange(place.used, false)) loop::move_on(it, reads.more());
    for (;; ++b, loop::move_on(it, reads.more())) {
      auto&& batch = loop::read_sized(it, stop, batches, b, reads.one());
      if (!f(batch, b, KnownEnd{b + 1 == batches})) return false;
      if constexpr (One) return ++b, place.used = true;
    }
  } else if constexpr (BatchesStayValid<Loader>) {
    for (; it != stop; ++b) {
      auto&& batch = loop::read(it, reads.one());
      bool last = limit && b + 1 == *limit;
      if (!last) {
        [[maybe_unused]] auto const watched = reads.more();
        ++it;
        last = !(it != stop);
      }
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
      auto&& batch = loop::read(it, reads.one());
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

  /// A pass that begins or continues at batch `first`, from the result of `begin_at`, which leaves the iterator of a
  /// sized loader that is read from its beginning at the batch before.
  BatchPass(Iterator at, Loader& loader, std::optional<long> limit, long first)
      : it_(std::move(at)),
        stop_(std::end(loader)),
        limit_(limit),
        place_{.batch = first, .used = first != 0 && SizedLoader<Loader> && !Jumps<Loader> && !KeepsPlace<Loader>} {}

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
  auto it = [&] {
    [[maybe_unused]] auto const watched = reads.more();
    return std::begin(loader);
  }();
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

template <class L>
LoaderFacts facts_of(L& loader, std::optional<long> batches) {
  LoaderFacts facts{.batches = batches};
  if constexpr (requires { loader.layout().samples; }) {
    if (loader.layout().samples >= 0) facts.samples = loader.layout().samples;
  } else if constexpr (requires { static_cast<long>(loader.samples()); }) {
    facts.samples = static_cast<long>(loader.samples());
  }
  return facts;
}

}  // namespace loop

/// The batch size of a loader, or of the data module that has the loaders, if it can be set.
class BatchSizes {
 public:
  template <class Source>
  BatchSizes(loop::RunCore& run, Source& source) : run_(run), makes_loaders_(!is_of<loop::GivenLoaders, Source>) {
    using Module = std::remove_reference_t<decltype(source.module())>;
    if constexpr (!std::is_const_v<Module>) module_ = &source.module(), type_ = typeid(Module);
    if constexpr (!is_of<loop::GivenLoaders, Source>) hold(source.module());
    else if constexpr (Source::trains) hold(source.given_train);
    else hold(source.given_eval);
  }

  /// nullopt if neither the data module nor the loader lets it be set.
  std::optional<long> now() const { return now_(holder_); }
  void set(long size) { set_(holder_, size); }
  /// True if the loaders are a data module's or the model's, which can make new ones.
  bool makes_loaders() const { return makes_loaders_; }
  /// The data module, if it is of exactly this type; else null.
  void* data_module(std::type_index type) { return type == type_ ? module_ : nullptr; }
  /// The number of batches in a step.
  long batches_of_step() const { return run_.asked.window_length; }
  /// Makes the run request its loaders again after the search.
  void changed() { run_.searching.sizes_changed = true; }

 private:
  template <class Holder>
  void hold(Holder& holder) {
    if constexpr (SettableBatchSize<Holder>) {
      holder_ = const_cast<void*>(static_cast<void const*>(std::addressof(holder)));
      now_ = [](void* held) -> std::optional<long> { return loop::batch_size_of(*static_cast<Holder*>(held)); };
      set_ = [](void* held, long size) { loop::set_batch_size_of(*static_cast<Holder*>(held), size); };
    }
  }

  loop::RunCore& run_;
  bool makes_loaders_;
  void* module_ = nullptr;
  std::type_index type_ = typeid(void);
  void* holder_ = nullptr;  ///< the object whose batch size can be set, if there is one
  std::optional<long> (*now_)(void*) = [](void*) { return std::optional<long>(); };
  void (*set_)(void*, long) = [](void*, long) {};
};

}  // namespace fulgurite
