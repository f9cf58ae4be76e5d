#pragma once
// What is wrong with steps, and with the hooks around them, where the batch's type is known.

#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/diagnose/about_hook.hpp>
#include <fulgurite/diagnose/data_hooks.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/loop/recurrent.hpp>

namespace fulgurite::judge {

/// The names that a refusal of an evaluation can show.
template <class Kind>
struct Ids;
template <>
struct Ids<loop::Validation> {
  static constexpr HookId step = HookId::validation_step, start = HookId::on_validation_batch_start,
                          end = HookId::on_validation_batch_end;
};
template <>
struct Ids<loop::Testing> {
  static constexpr HookId step = HookId::test_step, start = HookId::on_test_batch_start,
                          end = HookId::on_test_batch_end;
};
template <>
struct Ids<loop::Prediction> {
  static constexpr HookId step = HookId::predict_step, start = HookId::on_predict_batch_start,
                          end = HookId::on_predict_batch_end;
};

// One event of `T` in a function that returns the first verdict: nothing is instantiated for a hook that `T` does not
// have.
#define FULGURITE_ASK(HOOK, ID, ...)                                                                                   \
  if constexpr (HOOK::template named<T>) {                                                                             \
    constexpr auto fault = hook::event_fault<HOOK, T, R::automatic, __VA_ARGS__>();                                    \
    if (fault != HookFault::none) return {fault, ID};                                                                  \
  }

/// The events that receive an optimizer, against each of them.
template <class R, class T, class... Os>
consteval HookVerdict optimizer_hooks(std::type_identity<std::tuple<Os...>>) {
  using Ctx = Context<R, phase::Train>;
  constexpr bool automatic = R::automatic;
  return worst(HookVerdict{hook::event_fault<hook::on_before_zero_grad, T, automatic, Os, Ctx>(),
                           HookId::on_before_zero_grad}...,
               HookVerdict{hook::event_fault<hook::on_before_optimizer_step, T, automatic, Os, Ctx>(),
                           HookId::on_before_optimizer_step}...);
}

/// The events of a stage that receive a batch, against the batch that its loader yields.
template <class R, class T, class Outputs, class Loss, class Batch>
consteval HookVerdict training_fault() {
  using Ctx = Context<R, phase::Train>;
  FULGURITE_ASK(hook::on_train_batch_start, HookId::on_train_batch_start, Batch, Ctx)
  FULGURITE_ASK(hook::on_train_batch_end, HookId::on_train_batch_end, Outputs, Batch, Ctx)
  if constexpr (hook::on_before_zero_grad::named<T> || hook::on_before_optimizer_step::named<T>) {
    constexpr auto found = optimizer_hooks<R, T>(std::type_identity<decltype(loop::Optimizers<R>::optimizers)>{});
    if (found) return found;
  }
  FULGURITE_ASK(hook::on_before_backward, HookId::on_before_backward, Loss, Ctx)
  FULGURITE_ASK(hook::on_exception, HookId::on_exception, std::exception const, Context<R, phase::Fit>)
  return {};
}

/// One function of the model moves all schedules of its optimizer.
template <class R, class... Ss>
consteval HookVerdict scheduling_override(std::type_identity<std::tuple<Ss...>>) {
  using Ctx = Context<R, phase::Train>;
  return worst(HookVerdict{hook::override_fault<hook::lr_scheduler_step, typename R::Model, R::automatic, Ctx, Ss>(),
                           HookId::lr_scheduler_step}...);
}

/// Whether the model's overrides of clearing, backward, clipping and the step can be called with what training gives
/// them.
template <class R, class Loss>
consteval HookVerdict training_overrides() {
  using M = typename R::Model;
  using Ctx = Context<R, phase::Train>;
  using O = std::tuple_element_t<0, decltype(loop::Optimizers<R>::optimizers)>;
  using Closure = typename R::Value (*)();
  return worst(
      HookVerdict{hook::override_fault<hook::backward, M, R::automatic, Ctx, Loss>(), HookId::backward},
      HookVerdict{hook::override_fault<hook::optimizer_zero_grad, M, R::automatic, Ctx, O>(),
                  HookId::optimizer_zero_grad},
      HookVerdict{hook::override_fault<hook::optimizer_step, M, R::automatic, Ctx, SteppingOptimizer<R, O>, Closure>(),
                  HookId::optimizer_step},
      HookVerdict{hook::override_fault<hook::configure_gradient_clipping, M, R::automatic, Ctx, O, Clip>(),
                  HookId::configure_gradient_clipping},
      scheduling_override<R>(std::type_identity<typename loop::Optimizers<R>::Schedulers>{}));
}

/// Whether T, a callback or the model, can be called at the batches of an evaluation with what it has for its hooks.
template <class R, class Kind, class T, class Outputs, class Batch>
consteval HookVerdict evaluation_fault() {
  using Ctx = Context<R, typename Kind::Phase>;
  using Start = typename Kind::batch_start;
  using End = typename Kind::batch_end;
  FULGURITE_ASK(Start, Ids<Kind>::start, Batch, Ctx)
  FULGURITE_ASK(End, Ids<Kind>::end, Outputs, Batch, Ctx)
  FULGURITE_ASK(hook::on_exception, HookId::on_exception, std::exception const, Context<R, phase::Fit>)
  return {};
}
#undef FULGURITE_ASK

/// A step can be called with the loader's batch. Asking what it returns compiles its body here, not far below the
/// program.
template <class Step, class M, class B, class Ctx>
consteval HookVerdict step_fault(HookId id) {
  if constexpr (Step::template accepts<M, B, Ctx>) {
    using Compiled [[maybe_unused]] =
        decltype(Step::call(std::declval<M&>(), std::declval<B&>(), std::declval<Ctx&>()));
    return {};
  } else if constexpr (Step::template accepts<M, B>) {
    using Compiled [[maybe_unused]] = decltype(Step::call(std::declval<M&>(), std::declval<B&>()));
    return {};
  } else {
    return {HookFault::step_batch, id};
  }
}
/// What a step of the model returns for a batch.
template <class Step, class M, class B, class Ctx>
using StepResult = decltype(loop::call_step<Step>(std::declval<M&>(), std::declval<B&>(), std::declval<Ctx&>()));

/// What the hooks behind a step of an evaluation are given.
template <class Result>
using OutputsOf = std::conditional_t<std::is_void_v<Result>, loop::NoOutput, std::remove_reference_t<Result>>;

/// What an evaluation runs and what it runs on.
template <class Kind, class M, class Source>
consteval HookVerdict missing_half() {
  if constexpr (!Kind::Step::template named<M>) return {HookFault::missing_step, Ids<Kind>::step};
  else if constexpr (!Source::template evaluates<typename Kind::Loader>) return {HookFault::no_loader, Ids<Kind>::step};
  else return {};
}

/// The type of batch that a step of `Phase` receives from this loader; never called, only its type is asked for.
template <class R, class Source, class Ctx, class Loader>
auto batch_of(loop::State<R>& run, Source& source, Ctx& ctx, Loader& loader) {
  return loop::with_batch(run, source, ctx, loop::present(*std::begin(loader)),
                          []<class B>(B&) { return std::type_identity<B>{}; });
}
/// The batch that a step receives of a loader: after the transfer hooks and the move to the device.
template <class R, class Source, class Phase, class Loader>
using Batch = typename decltype(batch_of(std::declval<loop::State<R>&>(), std::declval<Source&>(),
                                         std::declval<Context<R, Phase>&>(), std::declval<Loader&>()))::type;

/// Truncated back-propagation: the model's own cut, a slice of it, and what the step makes of a slice.
template <class R, class Ctx, class B>
consteval HookVerdict split_fault() {
  return {hook::override_fault<hook::tbptt_split_batch, typename R::Model, R::automatic, Ctx, B, long>(),
          HookId::tbptt_split_batch};
}
/// A slice of a batch along time.
template <class R, class Ctx, class B>
using Slice = std::remove_reference_t<decltype(*std::begin(
    std::declval<decltype(loop::time_slices<R>(std::declval<typename R::Model&>(), std::declval<B&>(), 1L,
                                               std::declval<Ctx&>()))&>()))>;
/// What training_step returns for a slice.
template <class R, class Ctx, class B>
using SliceResult = std::remove_cvref_t<decltype(loop::call_training_step(
    std::declval<typename R::Model&>(), std::declval<Slice<R, Ctx, B>&>(),
    std::declval<std::optional<typename loop::HiddenOf<typename R::Model>::type> const&>(), std::declval<Ctx&>()))>;
/// The step of a model that carries a state also returns the next one.
template <class M, class Result>
consteval bool carries_hidden() {
  if constexpr (!Recurrent<M>) return true;
  else if constexpr (loop::is_optional<Result>) return carries_hidden<M, typename Result::value_type>();
  else
    return requires(Result& output) {
      { output.hidden } -> std::convertible_to<typename loop::HiddenOf<M>::type>;
    };
}

/// The name that a loader's type says; empty where it says none.
template <class L>
consteval std::string_view name_of_loader() {
  if constexpr (loop::NamedLoader<L>) return L::loader_name;
  else return {};
}

/// Several loaders in one, as data::combined makes them: it says in which mode.
template <class L>
concept CombinesLoaders = FULGURITE_SAYS(L, decltype(L::combine_mode), combine_mode);

/// Two of several loaders have the same name.
template <class Loaders>
inline constexpr bool named_twice = false;
template <class... Ls>
inline constexpr bool named_twice<std::tuple<Ls...>> = [] {
  std::array<std::string_view, sizeof...(Ls) + 1> names{name_of_loader<std::remove_reference_t<Ls>>()...};
  for (std::size_t i = 0; i != sizeof...(Ls); ++i)
    for (std::size_t j = 0; j != i; ++j)
      if (!names[i].empty() && names[i] == names[j]) return true;
  return false;
}();
/// Whether a loader of a tuple draws from several others.
template <class Loaders>
inline constexpr bool any_combines = false;
template <class... Ls>
inline constexpr bool any_combines<std::tuple<Ls...>> = (CombinesLoaders<std::remove_reference_t<Ls>> || ...);

/// The first callback that works with one loader alone.
template <class Pack>
struct wants_one_loader {
  static constexpr bool found = false;
};
template <class C, class... Cs>
struct wants_one_loader<Pack<C, Cs...>>
    : std::conditional_t<needs_one_eval_loader<C>(), std::type_identity<C>, wants_one_loader<Pack<Cs...>>> {
  static constexpr bool found = needs_one_eval_loader<C>() || wants_one_loader<Pack<Cs...>>::found;
};

}  // namespace fulgurite::judge
