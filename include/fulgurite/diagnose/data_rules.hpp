#pragma once
// Rules about the arguments of a call after the model: a data module, loaders, and how data are prepared.

#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/loop/data_source.hpp>

namespace fulgurite::judge {

// What is wrong with the hooks of a data module, and with the transfer hooks, through which a batch passes.

/// The data module of a source of batches.
template <class Source>
using ModuleOf = std::remove_reference_t<decltype(std::declval<Source&>().module())>;

/// Finds a function that both the data module and the model have although only one of them may. `using OverridesModel =
/// ...` in the data module declares that its own functions are meant, as in Lightning.
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

/// False if prepare_data is not const. It runs in only one of several processes, so the others would lack what it
/// stores in its object.
template <class T>
inline constexpr bool prepares_const = true;
template <class T>
  requires(hook::prepare_data::accepts<T>)
inline constexpr bool prepares_const<T> = requires(T const& object) { object.prepare_data(); };

/// Checks the data module's own hooks.
template <class R, class Module>
consteval HookVerdict module_hooks() {
  if constexpr (!std::is_class_v<Module>) return {};
  else
    return worst(
        misspelt<Module>(), data_calls<Module>(), settings_calls<Module>(), foreign_to_data<Module>(),
        HookVerdict{hook::event_fault<hook::setup, Module, true, RunContext<R, phase::Fit>>(), HookId::setup},
        HookVerdict{hook::event_fault<hook::teardown, Module, true, RunContext<R, phase::Fit>>(), HookId::teardown},
        HookVerdict{
            hook::event_fault<hook::on_exception, Module, true, std::exception const, RunContext<R, phase::Fit>>(),
            HookId::on_exception},
        two_sources<Module, typename R::Model>());
}

/// A `batch_size` belongs to this library only if there is a matching setter. Rule data.not_shared_out reports a
/// `shard` that does not fit, if there are several processes.
template <class T>
consteval HookVerdict asked_batch_size() {
  if constexpr (!hook::set_batch_size::accepts<T, long> || !hook::batch_size::is_plain<T> || SettableBatchSize<T>)
    return {};
  else return {HookFault::parameters, HookId::batch_size};
}
/// A `batch_is_ready` must say whether the fit has to wait.
template <class T>
consteval HookVerdict asked_for_waiting() {
  if constexpr (!hook::batch_is_ready::named<T> || MayWait<T>) return {};
  else return {HookFault::parameters, HookId::batch_is_ready};
}
/// Checks what a loader may have besides its batches, and what a strategy does with the loader.
template <class L>
consteval HookVerdict loader_hooks() {
  using T = std::remove_const_t<L>;
  if constexpr (!Probeable<T>) return {};
  else if constexpr (constexpr auto near = misspelt_of_loader<T>(); bool(near)) return near;
  else if constexpr (loop::WrapsLoaders<T>) return {};
  else
    return worst(uncallable<hook::set_epoch, T, long>(HookId::set_epoch),
                 uncallable<hook::in_order, T, bool>(HookId::in_order),
                 uncallable<hook::limit_each, T, double>(HookId::limit_each),
                 uncallable<hook::resume_at, T, long>(HookId::resume_at), asked_for_waiting<T>(),
                 unfit<hook::set_batch_size, T, long>(HookId::set_batch_size), asked_batch_size<T>());
}

/// The verdict on a loader's functions, or on those of the first loader inside it that has such a fault.
template <class L>
consteval auto loader_unfit();
template <class... Ls>
consteval auto first_unfit(std::type_identity<std::tuple<Ls...>>) {
  return first(loader_unfit<Ls>()...);
}
template <class L>
consteval auto loader_unfit() {
  if constexpr (constexpr auto found = loader_hooks<L>(); bool(found)) return about<found, L>();
  else if constexpr (loop::WrapsLoaders<L>) return first_unfit(std::type_identity<typename L::WrappedLoaders>{});
  else return Fine{};
}

/// Checks a transfer hook of the data module or the model. Where both have one, only that of the module is called.
template <class Hook, class Module, class M, class Ctx, class B>
consteval HookVerdict transfer_fault(HookId id) {
  constexpr bool of_module = requires { requires Probeable<Module> && Hook::template named<Module>; };
  return {hook::override_fault<Hook, std::conditional_t<of_module, Module, M>, true, Ctx, B>(), id};
}
/// True if the transfer hook of the data module, or of the model, returns nothing, so that the step would get no batch.
template <class Hook, class Module, class M, class Ctx, class B>
consteval bool swallows() {
  if constexpr (Overrides<Hook, Module, Ctx, B>)
    return std::is_void_v<decltype(call_override<Hook>(std::declval<Module&>(), std::declval<Ctx&>(),
                                                       std::declval<B&>()))>;
  else if constexpr (Overrides<Hook, M, Ctx, B>)
    return std::is_void_v<decltype(call_override<Hook>(std::declval<M&>(), std::declval<Ctx&>(), std::declval<B&>()))>;
  else return false;
}
/// The type that a transfer hook of the module or the model makes of `B`, or the strategy where it moves the batch.
template <class R, class Module, class Hook, class Ctx, class B>
using Staged = std::remove_reference_t<decltype(loop::transfer_stage<Hook>(
    std::declval<Module&>(), std::declval<typename R::Model&>(), std::declval<typename R::Strategy&>(),
    std::declval<Ctx&>(), std::declval<B&>(), hook::Unprofiled()))>;

/// True if what a loader yields are loaders that take an epoch, as the library's do: then it is a list of loaders.
template <class L>
inline constexpr bool yields_loaders = false;
template <LoaderLike L>
inline constexpr bool yields_loaders<L> =
    LoaderLike<std::remove_cvref_t<decltype(*std::begin(std::declval<L&>()))>> &&
    loop::TakesEpoch<std::remove_cvref_t<decltype(*std::begin(std::declval<L&>()))>>;

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro

/// True if training, which reads one loader, is given several.
template <class Source>
consteval bool trains_on_tuple() {
  if constexpr (Source::trains) return loop::is_tuple<std::remove_cvref_t<decltype(std::declval<Source&>().train())>>;
  else return loop::is_tuple<std::remove_cv_t<ModuleOf<Source>>>;
}

// clang-format off
/// A data module that is not the model.
template <class Module>
struct ModuleRules {
  FULGURITE_JUDGE(ModuleRules) {
    FULGURITE_RULE("[fulgurite.data.pointer] loaders and data modules are given as objects, not by pointer: pass "
                   "*loader",
                   accepts<Module>, !points<Module>)
    FULGURITE_RULE("[fulgurite.data.final] the hooks of a final class cannot be seen: remove `final` from the data "
                   "module",
                   accepts<Module>, !std::is_final_v<Module>)
    return Fine{};
  }
};

/// prepare_data runs in only one of several processes, so the others would lack what it stores in its object.
template <class T>
struct PrepareRules {
  FULGURITE_JUDGE(PrepareRules) {
    FULGURITE_RULE("[fulgurite.data.prepare_data] prepare_data runs in one process only, so what it stores the others "
                   "lack: make it `void prepare_data() const`, and read in setup()",
                   accepts<T>, prepares_const<T>)
    return Fine{};
  }
};

/// The return types of the loader functions that a call uses, in a data module or in a model that has them itself.
template <class Module, class... Hooks>
struct ReturnedLoaderRules {
  FULGURITE_JUDGE(ReturnedLoaderRules) {
    FULGURITE_RULE("[fulgurite.data.returns_nothing] a function that is asked for a loader, such as train_dataloader, "
                   "returns nothing: return the loader",
                   accepts<Module>, ((loop::gives_loader<Hooks, Module>() || !Hooks::template accepts<Module>) && ...))
    return Fine{};
  }
};

/// What a callback needs of the source of batches.
template <class T, bool FromModule>
struct SourceRules {
  FULGURITE_JUDGE(SourceRules) {
    FULGURITE_RULE("[fulgurite.callback.needs_data_module] this callback makes loaders again, so it needs a data "
                   "module, or a model with train_dataloader(): pass that instead of loaders",
                   accepts<T>, FromModule || !needs_data_module<T>())
    return Fine{};
  }
};

/// An argument that should be a loader.
template <class R, class L>
struct LoaderRules {
  using M = typename R::Model;
  using S = typename R::Strategy;
  FULGURITE_JUDGE(LoaderRules) {
    FULGURITE_RULE("[fulgurite.data.no_loader] a loader is a range of batches, and one argument is none: pass a "
                   "loader, or a std::tuple of them",
                   accepts<M>, LoaderLike<L>)
    FULGURITE_RULE("[fulgurite.data.list_of_loaders] a list of loaders is taken as one loader, whose batches would be "
                   "the loaders: pass std::tuple{a, b} for evaluation, and data::combined(a, b) for training",
                   accepts<M>, !yields_loaders<L>)
    FULGURITE_RULE("[fulgurite.data.not_shared_out] every process would read all of this loader: give it `void "
                   "shard(int rank, int world, bool training)`, or pass data::of_this_rank(loader), each process its "
                   "own part",
                   accepts<M>, !S::is_distributed || splits_model<S>() || ShardableLoader<L> || ShardsItself<L>)
    FULGURITE_RULES(loader_unfit<L>())
    FULGURITE_HOOKS(S, uncallable<hook::process_dataloader, S, L>(HookId::process_dataloader))
    return Fine{};
  }
};

/// A loader that is trained on.
template <class R, class L, bool Trains>
struct TrainingLoaderRules {
  using M = typename R::Model;
  using S = typename R::Strategy;
  FULGURITE_JUDGE(TrainingLoaderRules) {
    // The gradients of the last step carry the message to the other processes that the epoch ends.
    FULGURITE_RULE("[fulgurite.data.end_unknown] several processes have to know the epoch's last batch before its "
                   "step: give the loader size(), or `static constexpr bool batches_stay_valid = true` if it may be "
                   "read one batch ahead",
                   accepts<M>, !Trains || !S::is_distributed || SizedLoader<L> || BatchesStayValid<L>)
    return Fine{};
  }
};

/// Checks that a strategy's `move` takes the batch, if no hook moves it to the device instead.
template <class S, class Batch, bool Overridden>
consteval HookVerdict move_fault() {
  using Move = hook::of_strategy::move;
  if constexpr (Overridden || !Move::named<S> || Move::accepts<S, Batch>) return {};
  else return {HookFault::parameters, HookId::of_strategy_move};
}

/// The result of a transfer hook. `Returns`: it returns something.
template <class M, bool Returns>
struct BatchResultRules {
  FULGURITE_JUDGE(BatchResultRules) {
    FULGURITE_RULE("[fulgurite.hook.batch_result] a transfer hook returns nothing, and the step gets what it returns: "
                   "return the batch",
                   accepts<M>, Returns)
    return Fine{};
  }
};

/// The three transfer hooks, each with the result of the one before it, starting from a batch `Raw`.
template <class R, class Module, class Ctx, class Raw>
struct TransferRules {
  using M = typename R::Model;
  using S = typename R::Strategy;
  using Before = hook::on_before_batch_transfer;
  using Move = hook::transfer_batch_to_device;
  using After = hook::on_after_batch_transfer;
  FULGURITE_JUDGE(TransferRules) {
    FULGURITE_HOOKS(M, transfer_fault<Before, Module, M, Ctx, Raw>(HookId::on_before_batch_transfer))
    FULGURITE_RULES(BatchResultRules<M, !swallows<Before, Module, M, Ctx, Raw>()>::judge())
    {
      using First = Staged<R, Module, Before, Ctx, Raw>;
      FULGURITE_HOOKS(M, transfer_fault<Move, Module, M, Ctx, First>(HookId::transfer_batch_to_device))
      FULGURITE_RULES(BatchResultRules<M, !swallows<Move, Module, M, Ctx, First>()>::judge())
      FULGURITE_RULES(TraitRules<S, !moves_too_late<S, First>()>::judge())
      FULGURITE_RULE("[fulgurite.data.opaque_batch] this batch type cannot be looked into, so its tensors would not "
                     "reach the GPU: give it `Batch to(torch::Device) const`",
                     accepts<M>, Overrides<Move, Module, Ctx, First> || Overrides<Move, M, Ctx, First> ||
                     moves<S, First>())
      FULGURITE_HOOKS(S, move_fault<S, First, Overrides<Move, Module, Ctx, First> || Overrides<Move, M, Ctx, First>>())
      {
        using Second = Staged<R, Module, Move, Ctx, First>;
        FULGURITE_RULES(BatchResultRules<M, !swallows<After, Module, M, Ctx, Second>()>::judge())
        return about<transfer_fault<After, Module, M, Ctx, Second>(HookId::on_after_batch_transfer), M>();
      }
    }
  }
};
// clang-format on

/// Checks what callbacks need of the loaders, and how data are prepared.
template <class R, class Source, class... Cs>
consteval auto sources() {
  FULGURITE_RULES(first(SourceRules<Cs, !std::is_same_v<ModuleOf<Source>, NoModule>>::judge()...))
  FULGURITE_RULES(PrepareRules<ModuleOf<Source>>::judge())
  return PrepareRules<typename R::Model>::judge();
}

template <class R, class Source, class Phase, class Loader>
consteval auto transfer_from() {
  return TransferRules<R, ModuleOf<Source>, RunContext<R, Phase>,
                       std::remove_reference_t<decltype(loop::present(*std::begin(std::declval<Loader&>())))>>::judge();
}

}  // namespace fulgurite::judge
