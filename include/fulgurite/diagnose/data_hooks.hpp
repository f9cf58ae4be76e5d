#pragma once
// What is wrong with the hooks of a data module, and with those that a batch passes on its way to the device.

#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/core/constant.hpp>
#include <fulgurite/diagnose/foreign_hooks.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/transfer.hpp>

namespace fulgurite::judge {

/// The data module of a source of batches.
template <class Source>
using ModuleOf = std::remove_reference_t<decltype(std::declval<Source&>().module())>;

/// What the data module and the model both have, and only one of them can give. `using OverridesModel = ...` in the
/// data module says that its own are meant, as in Lightning.
template <class Module, class M>
consteval HookVerdict two_sources() {
  if constexpr (requires { typename Module::OverridesModel; }) return {};
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (!std::is_same_v<hook::NAME, hook::prepare_data> && hook::NAME::named<Module> && hook::NAME::named<M>)  \
    return {HookFault::two_sources, HookId::NAME};
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

/// prepare_data runs in one process of several, so what it leaves in its object the others would not have.
template <class T>
inline constexpr bool prepares_const = true;
template <class T>
  requires(hook::prepare_data::accepts<T>)
inline constexpr bool prepares_const<T> = requires(T const& object) { object.prepare_data(); };

/// A data module's own names.
template <class R, class Module>
consteval HookVerdict module_hooks() {
  if constexpr (!std::is_class_v<Module>) return {};
  else
    return worst(
        misspelt<Module>(), data_calls<Module>(), settings_calls<Module>(), foreign_to_data<Module>(),
        HookVerdict{hook::event_fault<hook::setup, Module, true, Context<R, phase::Fit>>(), HookId::setup},
        HookVerdict{hook::event_fault<hook::teardown, Module, true, Context<R, phase::Fit>>(), HookId::teardown},
        two_sources<Module, typename R::Model>());
}

/// It holds other loaders and has what they have: a function that is missing in one of them is missing here.
template <class L>
concept WrapsLoaders = FULGURITE_SAYS(L, bool, wraps_loaders);

/// A `batch_size` is this library's where what sets it is there, too. A `shard` that does not fit is told by
/// data.not_shared_out, where there is somebody to share with.
template <class T>
consteval HookVerdict asked_batch_size() {
  if constexpr (!hook::set_batch_size::accepts<T, long> || !hook::batch_size::is_plain<T> || SettableBatchSize<T>)
    return {};
  else return {HookFault::parameters, HookId::batch_size};
}
/// What a loader may have beside its batches, and what a strategy does with it.
template <class L>
consteval HookVerdict loader_hooks() {
  using T = std::remove_const_t<L>;
  if constexpr (!Probeable<T>) return {};
  else if constexpr (constexpr auto near = misspelt_of_loader<T>(); bool(near)) return near;
  else if constexpr (WrapsLoaders<T>) return {};
  else
    return worst(uncallable<hook::set_epoch, T, long>(HookId::set_epoch),
                 uncallable<hook::in_order, T, bool>(HookId::in_order),
                 uncallable<hook::limit_each, T, double>(HookId::limit_each),
                 uncallable<hook::resume_at, T, long>(HookId::resume_at),
                 unfit<hook::set_batch_size, T, long>(HookId::set_batch_size), asked_batch_size<T>());
}

/// A transfer hook of the data module or the model.
template <class Hook, class Module, class M, class Ctx, class B>
consteval HookVerdict transfer_fault(HookId id) {
  HookVerdict const of_model{hook::override_fault<Hook, M, true, Ctx, B>(), id};
  if constexpr (!Probeable<Module>) return of_model;
  else return worst(HookVerdict{hook::override_fault<Hook, Module, true, Ctx, B>(), id}, of_model);
}
/// The transfer hook of the data module, or the model's, returns nothing, so the step would get none.
template <class Hook, class Module, class M, class Ctx, class B>
consteval bool swallows() {
  if constexpr (Overrides<Hook, Module, Ctx, B>)
    return std::is_void_v<decltype(call_override<Hook>(std::declval<Module&>(), std::declval<Ctx&>(),
                                                       std::declval<B&>()))>;
  else if constexpr (Overrides<Hook, M, Ctx, B>)
    return std::is_void_v<decltype(call_override<Hook>(std::declval<M&>(), std::declval<Ctx&>(), std::declval<B&>()))>;
  else return false;
}
/// What happens to a batch without a transfer hook: nothing.
struct Same {
  template <class B>
  B&& operator()(B&& batch) const {
    return std::forward<B>(batch);
  }
};
/// What a transfer hook of the module or the model makes of `B`.
template <class R, class Module, class Hook, class Ctx, class B, class Otherwise = Same>
using Staged = std::remove_reference_t<decltype(loop::transfer_stage<Hook>(
    std::declval<Module&>(), std::declval<typename R::Model&>(), std::declval<Ctx&>(), std::declval<B&>(),
    std::declval<Otherwise>()))>;
/// What happens to a batch without transfer_batch_to_device: the strategy moves it.
template <class Strategy>
struct Moves {
  Strategy& strategy;
  template <class B>
  decltype(auto) operator()(B&& batch) const {
    return strategy.move(std::forward<B>(batch));
  }
};

}  // namespace fulgurite::judge
