#pragma once
// Where a run takes its batches from: loaders given to fit, a data module, or the model itself. Loaders are asked for
// once, when needed.

#include <concepts>
#include <cstddef>
#include <optional>
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

/// Says on purpose that a validation_step has no loader, or a validation loader no step: `trainer.fit(model, data,
/// NoValidation{})`.
struct NoValidation {};

/// In the place of a data module where loaders were given directly.
struct NoModule {};

namespace loop {

/// Keeps what a loader factory returned: the object, or a pointer where it returned a reference.
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
    kept_ = {};
    fresh_ = true;
  }
  /// True once for each time that a loader was asked for.
  bool is_fresh() { return std::exchange(fresh_, false); }

 private:
  bool fresh_ = true;
  std::conditional_t<std::is_reference_v<Returned>, std::remove_reference_t<Returned>*,
                     std::optional<std::remove_reference_t<Returned>>>
      kept_{};
};

template <class T>
inline constexpr bool is_tuple = false;
template <class... Ts>
inline constexpr bool is_tuple<std::tuple<Ts...>> = true;

/// One evaluation loader, or a tuple of them, as a tuple of references.
template <class L>
auto as_tuple(L& loaders) {
  if constexpr (is_tuple<std::remove_const_t<L>>)
    return std::apply([](auto&... l) { return std::tuple<decltype(l)...>(l...); }, loaders);
  else return std::tuple<L&>(loaders);
}

/// Loaders handed to the trainer.
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
  /// The same as it was before any loader was asked for.
  GivenLoaders anew() { return {given_train, given_eval}; }
  bool is_train_fresh() { return std::exchange(train_is_fresh, false); }
  template <class Hook>
  bool is_fresh() {
    return std::exchange(eval_is_fresh, false);
  }
  auto& train() { return given_train; }
  template <class Hook>
  auto evaluation() {
    return as_tuple(given_eval);
  }
};

/// It has that function, and the function returns something.
template <class Hook, class Module>
consteval bool gives_loader() {
  if constexpr (Hook::template accepts<Module>) return !std::is_void_v<decltype(Hook::call(std::declval<Module&>()))>;
  else return false;
}

/// A data module, or a model that has the loaders itself; `Validates` is false where NoValidation was said.
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
  /// The same as it was before any loader was asked for.
  ModuleLoaders anew() { return ModuleLoaders(from); }
  bool is_train_fresh() { return train_.is_fresh(); }
  template <class Hook>
  bool is_fresh() {
    return slot<Hook>()->is_fresh();
  }
  /// The next call asks for the loader anew (reload_dataloaders_every_n_epochs).
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
  struct Nothing {};
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

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

// What a call of fit, validate, test or predict was given: the source of batches that it makes.

/// The source that one thing makes, which is a loader (of an evaluation: or a tuple of them) or a data module.
template <class Data, bool Evaluation = false, class D = std::remove_reference_t<Data>>
using SourceOf =
    std::conditional_t<LoaderLike<D> || (Evaluation && is_tuple<std::remove_const_t<D>>),
                       std::conditional_t<Evaluation, GivenLoaders<NoModule, D>, GivenLoaders<D, NoModule>>,
                       ModuleLoaders<D, true>>;
/// The same of two things: loaders, or a data module and NoValidation.
template <class D, class V>
using SourceOfTwo = std::conditional_t<LoaderLike<D>, GivenLoaders<D, V>, ModuleLoaders<D, false>>;

template <class T>
inline constexpr bool is_waiver = std::is_same_v<std::remove_cvref_t<T>, NoValidation>;
/// A data module and a loader, where the data module has loaders of its own.
template <class Data, class Val, class Source>
inline constexpr bool is_mixed = !LoaderLike<std::remove_reference_t<Data>> && !is_waiver<Val> && Source::trains;

/// The source of one thing; `none` stands where a loader brings no other.
template <bool Evaluation = false, class D>
SourceOf<D, Evaluation> source_of(D& data, NoModule& none) {
  if constexpr (!Evaluation && LoaderLike<D>) return {data, none};
  else if constexpr (LoaderLike<D> || (Evaluation && is_tuple<std::remove_const_t<D>>)) return {none, data};
  else return SourceOf<D, Evaluation>(data);
}

// What a training step may return, and where its loss is.

using fulgurite::is_optional;

/// A tensor, or a struct with a tensor `.loss`.
template <class Backend, class T>
concept HoldsLoss = Backend::template is_value<T> || requires(T& result) {
  requires Backend::template is_value<std::remove_cvref_t<decltype(result.loss)>>;
};

/// What automatic optimization accepts: a loss, or an optional of one; an empty optional skips backward for that batch.
template <class Backend, class T>
concept StepOutput =
    HoldsLoss<Backend, T> || (is_optional<T> && requires { requires HoldsLoss<Backend, typename T::value_type>; });

/// The loss inside a step's result, or nullptr where the step returned none.
template <class Backend, class T>
auto* loss_of(T& result) {
  if constexpr (is_optional<std::remove_const_t<T>>) return result ? loss_of<Backend>(*result) : nullptr;
  else if constexpr (Backend::template is_value<std::remove_const_t<T>>) return &result;
  else return &result.loss;
}

/// What end hooks receive as outputs where the step returns a bare loss.
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

/// The loss detached and already divided by the window's length; everything else as the step returned it.
template <class Backend, class T>
auto outputs_of(T& result, double factor) {
  using Outputs = typename OutputsOf<Backend, T>::type;
  if constexpr (is_optional<T>) {
    return result ? Outputs(outputs_of<Backend>(*result, factor)) : Outputs{};
  } else if constexpr (Backend::template is_value<T>) {
    return Outputs{Backend::detached(result, factor)};
  } else {
    Outputs outputs = result;
    outputs.loss = Backend::detached(result.loss, factor);
    return outputs;
  }
}

/// The step, in whichever form the model has.
template <class Hook, class Model, class Batch, class Ctx>
decltype(auto) call_step(Model& model, Batch& batch, Ctx& ctx) {
  if constexpr (Hook::template accepts<Model, Batch, Ctx>) return Hook::call(model, batch, ctx);
  else return Hook::call(model, batch);
}

// From what a loader yields to what a step receives: the three transfer hooks, the move to the device, the precision of
// inputs.

/// A transfer hook of the data module, else of the model, else what happens without one. References pass through
/// untouched.
template <class Hook, class Module, class Model, class Ctx, class Batch, class Otherwise>
[[gnu::always_inline]] inline decltype(auto) transfer_stage(Module& module, Model& model, Ctx& ctx, Batch&& batch,
                                                            Otherwise&& otherwise) {
  using B = std::remove_reference_t<Batch>;
  if constexpr (Overrides<Hook, Module, Ctx, B>) return call_override<Hook>(module, ctx, batch);
  else if constexpr (Overrides<Hook, Model, Ctx, B>) return call_override<Hook>(model, ctx, batch);
  else return otherwise(std::forward<Batch>(batch));
}

/// A loader as the options and the strategy want it, each time it was asked for.
template <class R, class Loader>
void prepare_loader(State<R>& run, Loader& loader, [[maybe_unused]] bool training) {
  bool const ordered = run.asked.options.overfit_batches.has_value();
  if (!keep_order(loader, ordered) && ordered)
    run.warn("fulgurite.options.overfit_order",
             "overfit_batches wants the same first batches in every epoch, and a loader "
             "cannot be told to keep its order: give it `void in_order(bool)`, or see "
             "that it does not shuffle");
  if constexpr (shares<R> && !splits_model<R> && ShardableLoader<Loader> && !ShardsItself<Loader>)
    if (run.asked.options.use_distributed_sampler)
      shard_of(loader, run.parts.strategy.rank(), run.parts.strategy.world(), training);
  if constexpr (requires { run.parts.strategy.process_dataloader(loader); })
    if (run.asked.options.use_distributed_sampler) run.parts.strategy.process_dataloader(loader);
}

/// The training loader, prepared as the options and the strategy want it, so that a count of its batches is that of the
/// training.
template <class R, class Source>
auto& training_loader(State<R>& run, Source& source) {
  auto& loader = source.train();
  if (source.is_train_fresh()) prepare_loader(run, loader, true);
  return loader;
}

/// The evaluation loaders of one kind as a tuple of references, prepared.
template <class Hook, class R, class Source>
auto evaluation_loaders(State<R>& run, Source& source) {
  auto loaders = source.template evaluation<Hook>();
  if (source.template is_fresh<Hook>()) each_of(loaders, [&](auto& loader) { prepare_loader(run, loader, false); });
  return loaders;
}

/// A loader of std::optional batches may leave one out; everything else is always there.
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

/// The size of the batch at hand; of none, whether that is because its tensors have no rows.
template <class R, class Batch>
[[gnu::always_inline]] inline void measure(State<R>& run, Batch const& batch) {
  run.facts.batch_size = R::Backend::batch_size(batch);
  if (run.facts.batch_size == 0) [[unlikely]]
    run.facts.no_rows = R::Backend::holds_tensor(batch);
}

/// Runs `use(batch)` with the batch as the step sees it; each stage's result lives until `use` returns. The stages go
/// through `moves`, so that a profiler can see how long they take.
template <class R, class Source, class Ctx, class Raw, class Use, class Moves = hook::Untimed>
[[gnu::always_inline]] inline decltype(auto) with_batch(State<R>& run, Source& source, Ctx& ctx, Raw&& raw, Use&& use,
                                                        Moves const& moves = {}) {
  auto& module = source.module();
  auto& model = *run.parts.model;
  auto same = []<class B>(B&& batch) -> B&& { return std::forward<B>(batch); };
  auto&& before = moves.more([&]() __attribute__((always_inline)) -> decltype(auto) {
    return transfer_stage<hook::on_before_batch_transfer>(module, model, ctx, std::forward<Raw>(raw), same);
  });
  auto const move = [&](auto&& batch) -> decltype(auto) {
    return run.parts.strategy.move(std::forward<decltype(batch)>(batch));
  };
  auto&& moved = moves([&]() __attribute__((always_inline)) -> decltype(auto) {
    return transfer_stage<hook::transfer_batch_to_device>(module, model, ctx, before, move);
  });
  auto&& after = moves.more([&]() __attribute__((always_inline)) -> decltype(auto) {
    return transfer_stage<hook::on_after_batch_transfer>(module, model, ctx, moved, same);
  });
  auto&& batch = moves.more([&]() __attribute__((always_inline)) -> decltype(auto) {
    return R::Backend::convert_input(after, run.parts.precision);
  });
  return use(batch);
}

}  // namespace fulgurite::loop

namespace fulgurite {

/// The rows of a batch: of the loader, or of the data module that has the loaders, where one can be told.
class BatchSizes {
 public:
  virtual ~BatchSizes() = default;
  /// Nothing where neither the data module nor the loader can be told.
  virtual std::optional<long> now() const = 0;
  virtual void set(long size) = 0;
  /// The loaders are a data module's, or the model's, which may make them again.
  virtual bool makes_loaders() const = 0;
  /// The data module, if it is of this very type; else null.
  virtual void* data_module(std::type_index type) = 0;
  /// Batches that a step is made of.
  virtual long batches_of_step() const = 0;
  /// What follows the search asks for its loaders anew.
  virtual void changed() = 0;
};

namespace loop {

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

/// Loaders that were handed to the trainer.
template <class Source>
inline constexpr bool hands_loaders = false;
template <class Train, class Eval>
inline constexpr bool hands_loaders<GivenLoaders<Train, Eval>> = true;

template <class R, class Source>
class BatchSizesOf final : public BatchSizes {
 public:
  BatchSizesOf(State<R>& run, Source& source) : run_(run), source_(source) {}

  std::optional<long> now() const override {
    std::optional<long> size;
    with_holder([&](auto& holder) { size = batch_size_of(holder); });
    return size;
  }
  void set(long size) override {
    with_holder([&](auto& holder) { set_batch_size_of(holder, size); });
  }
  bool makes_loaders() const override { return !hands_loaders<Source>; }
  void* data_module(std::type_index type) override {
    auto& module = source_.module();
    using Module = std::remove_reference_t<decltype(module)>;
    if constexpr (!std::is_const_v<Module>)
      if (type == typeid(Module)) return &module;
    return nullptr;
  }
  long batches_of_step() const override { return run_.asked.window_length; }
  void changed() override { run_.searching.sizes_changed = true; }

 private:
  /// Calls f with what can be told its batch size.
  template <class F>
  void with_holder(F&& f) const {
    if constexpr (!hands_loaders<Source>) {
      if constexpr (SettableBatchSize<std::remove_reference_t<decltype(source_.module())>>) f(source_.module());
    } else if constexpr (Source::trains) {
      if constexpr (SettableBatchSize<std::remove_reference_t<decltype(source_.given_train)>>) f(source_.given_train);
    } else {
      if constexpr (SettableBatchSize<std::remove_reference_t<decltype(source_.given_eval)>>) f(source_.given_eval);
    }
  }

  State<R>& run_;
  Source& source_;
};

}  // namespace loop
}  // namespace fulgurite
