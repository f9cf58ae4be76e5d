#pragma once
// From what a loader yields to what a step receives: the three transfer hooks, the move to the device, the precision of
// inputs.

#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/each_of.hpp>
#include <fulgurite/hook/profiled.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_output.hpp>

namespace fulgurite::loop {

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
