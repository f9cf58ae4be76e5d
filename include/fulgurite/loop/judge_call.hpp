#pragma once
// The verdict on one call: do the steps take what the loaders yield, and has every step its loader?

#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/loop/judge.hpp>
#include <fulgurite/loop/judge_data.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/loop/subject.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::judge {

template <class Hook, class T, class Ctx, class B>
consteval HookVerdict transfer_fault(HookId id) {
  if constexpr (!Probeable<T>) return {};
  else return {hook::override_fault<Hook, T, true, Ctx, B>(), id};
}
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
template <class Strategy>
struct Moves {
  Strategy& strategy;
  template <class B>
  decltype(auto) operator()(B&& batch) const {
    return strategy.move(std::forward<B>(batch));
  }
};

/// A strategy may know batches that it cannot move: `template <class Batch> static constexpr bool moves = ...`.
template <class S, class B>
consteval bool moves() {
  if constexpr (requires { S::template moves<B>; }) return S::template moves<B>;
  else return true;
}

/// The three transfer hooks, each against what the one before it leaves.
template <class R, class Module, class Ctx, class Raw>
consteval Verdict transfer() {
  using M = typename R::Model;
  using Before = hook::on_before_batch_transfer;
  using Move = hook::transfer_batch_to_device;
  using After = hook::on_after_batch_transfer;
  constexpr auto before = worst(transfer_fault<Before, Module, Ctx, Raw>(HookId::on_before_batch_transfer),
                                transfer_fault<Before, M, Ctx, Raw>(HookId::on_before_batch_transfer));
  if constexpr (bool(before)) return about(before);
  else {
    using First = Staged<R, Module, Before, Ctx, Raw>;
    constexpr bool moves_it = Overrides<Move, Module, Ctx, First> || Overrides<Move, M, Ctx, First>;
    constexpr auto move = worst(transfer_fault<Move, Module, Ctx, First>(HookId::transfer_batch_to_device),
                                transfer_fault<Move, M, Ctx, First>(HookId::transfer_batch_to_device));
    if constexpr (bool(move)) return about(move);
    else if constexpr (!moves_it && !moves<typename R::Strategy, First>()) return {Fault::opaque_batch};
    else {
      using Second = Staged<R, Module, Move, Ctx, First, Moves<typename R::Strategy>>;
      return about(worst(transfer_fault<After, Module, Ctx, Second>(HookId::on_after_batch_transfer),
                         transfer_fault<After, M, Ctx, Second>(HookId::on_after_batch_transfer)));
    }
  }
}
template <class R, class Source, class Phase, class Loader>
consteval Verdict transfer_from() {
  using Module = std::remove_reference_t<decltype(std::declval<Source&>().module())>;
  return transfer<R, Module, Context<R, Phase>,
                  std::remove_reference_t<decltype(loop::present(*std::begin(std::declval<Loader&>())))>>();
}

/// The type of batch that a step of `Phase` receives from this loader; never called, only its type is asked for.
template <class R, class Source, class Ctx, class Loader>
auto batch_of(loop::State<R>& run, Source& source, Ctx& ctx, Loader& loader) {
  return loop::with_batch(run, source, ctx, loop::present(*std::begin(loader)), []<class B>(B&) { return std::type_identity<B>{}; });
}
template <class R, class Source, class Phase, class Loader>
using Batch = typename decltype(batch_of(std::declval<loop::State<R>&>(), std::declval<Source&>(),
                                         std::declval<Context<R, Phase>&>(), std::declval<Loader&>()))::type;

template <class R, class Pack, class StepCtx, class B>
struct Training;
template <class R, class... Cs, class StepCtx, class B>
struct Training<R, Pack<Cs...>, StepCtx, B> {
  using M = typename R::Model;
  using Backend = typename R::Backend;

  static consteval Verdict verdict() {
    if constexpr (Recurrent<M>) return recurrent();
    else if constexpr (!loop::HasStep<hook::training_step, M, B, StepCtx>)
      return {Fault::step_batch, {HookFault::none, HookId::training_step}};
    else {
      using Result = std::remove_cvref_t<decltype(loop::call_step<hook::training_step>(
          std::declval<M&>(), std::declval<B&>(), std::declval<StepCtx&>()))>;
      if constexpr (!R::automatic) {
        if constexpr (!std::is_void_v<Result>) return {Fault::manual_result};
        else return hooks<loop::NoOutput, typename R::Value>();
      } else if constexpr (!loop::StepOutput<Backend, Result>) return {Fault::step_result};
      else if constexpr (loop::is_optional<Result> && R::Strategy::is_distributed) return {Fault::skip_distributed};
      else if constexpr (loop::is_optional<Result> && loop::Optimizers<R>::needs_closure) return {Fault::skip_closure};
      else if constexpr (loop::is_optional<Result> && R::Strategy::captures) return {Fault::capture_skip};
      else {
        using Loss = std::remove_pointer_t<decltype(loop::loss_of<Backend>(std::declval<Result&>()))>;
        constexpr auto over = training_overrides<R, Loss>();
        if constexpr (!over.ok()) return over;
        else return hooks<typename loop::OutputsOf<Backend, Result>::type, Loss>();
      }
    }
  }

 private:
  template <class Outputs, class Loss>
  static consteval Verdict hooks() {
    Verdict found = training_hooks<R, M, Outputs, Loss, B>();
    int who = 0;
    ((++who, found = found.ok() ? training_hooks<R, Cs, Outputs, Loss, B>().by(who) : found), ...);
    return found.ok() ? training_hooks<R, typename R::Strategy, Outputs, Loss, B>().by(strategy_at_fault) : found;
  }

  /// A step that sees slices of the batch and a state that it hands on.
  static consteval Verdict recurrent() {
    using Hidden = typename loop::HiddenOf<M>::type;
    constexpr HookVerdict split{hook::override_fault<hook::tbptt_split_batch, M, R::automatic, StepCtx, B, long>(),
                                HookId::tbptt_split_batch};
    if constexpr (bool(split)) return about(split);
    else {
      using Slice = std::remove_reference_t<decltype(*std::begin(std::declval<decltype(loop::time_slices<R>(
          std::declval<M&>(), std::declval<B&>(), 1L, std::declval<StepCtx&>()))&>()))>;
      if constexpr (!loop::HasRecurrentStep<M, Slice, StepCtx>) return {Fault::hidden_step};
      else {
        using Result = std::remove_cvref_t<decltype(loop::call_training_step(
            std::declval<M&>(), std::declval<Slice&>(), std::declval<std::optional<Hidden> const&>(), std::declval<StepCtx&>()))>;
        if constexpr (!loop::StepOutput<Backend, Result>) return {Fault::step_result};
        else if constexpr (!carries<Result, Hidden>()) return {Fault::hidden_result};
        else {
          using Loss = std::remove_pointer_t<decltype(loop::loss_of<Backend>(std::declval<Result&>()))>;
          constexpr auto over = training_overrides<R, Loss>();
          if constexpr (!over.ok()) return over;
          else return hooks<typename loop::OutputsOf<Backend, Result>::type, Loss>();
        }
      }
    }
  }
  template <class Result, class Hidden>
  static consteval bool carries() {
    if constexpr (loop::is_optional<Result>) return carries<typename Result::value_type, Hidden>();
    else return requires(Result& output) { { output.hidden } -> std::convertible_to<Hidden>; };
  }
};

template <class R, class Pack, class Source>
consteval Verdict training() {
  if constexpr (!Source::trains) return {Fault::no_train_loader};
  else {
    using Loader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;
    if constexpr (!LoaderLike<Loader>) return {Fault::no_range};
    else if constexpr (constexpr auto moved = transfer_from<R, Source, phase::Train, Loader>(); !moved.ok())
      return moved;
    else {
      using Ctx = std::conditional_t<R::automatic, Context<R, phase::Train>, StepContext<R, Pack>>;
      return Training<R, Pack, Ctx, Batch<R, Source, phase::Train, Loader>>::verdict();
    }
  }
}

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

template <class R, class Kind, class B, class P>
struct Evaluation;
template <class R, class Kind, class B, class... Cs>
struct Evaluation<R, Kind, B, Pack<Cs...>> {
  using M = typename R::Model;
  using Ctx = Context<R, typename Kind::Phase>;

  static consteval Verdict verdict() {
    if constexpr (!loop::HasStep<typename Kind::Step, M, B, Ctx>)
      return {Fault::step_batch, {HookFault::none, Ids<Kind>::step}};
    else {
      using Result =
          decltype(loop::call_step<typename Kind::Step>(std::declval<M&>(), std::declval<B&>(), std::declval<Ctx&>()));
      using Outputs = std::conditional_t<std::is_void_v<Result>, loop::NoOutput, std::remove_reference_t<Result>>;
      if constexpr (std::is_void_v<Result> && std::is_same_v<Kind, loop::Prediction>) return {Fault::predict_result};
      else
        return hooks<Outputs>();
    }
  }

 private:
  template <class Outputs>
  static consteval Verdict hooks() {
    constexpr auto start = Ids<Kind>::start, end = Ids<Kind>::end;
    Verdict found = evaluation_hooks<R, Kind, M, Outputs, B>(start, end);
    int who = 0;
    ((++who, found = found.ok() ? evaluation_hooks<R, Kind, Cs, Outputs, B>(start, end).by(who) : found), ...);
    return found.ok() ? evaluation_hooks<R, Kind, typename R::Strategy, Outputs, B>(start, end).by(strategy_at_fault) : found;
  }
};

template <class L>
consteval std::string_view name_of_loader() {
  if constexpr (requires { L::loader_name; }) return L::loader_name;
  else return {};
}

/// One loader of an evaluation against its step.
template <class R, class Kind, class Pack, class Source, class Loader>
consteval Verdict evaluation_loader() {
  if constexpr (!LoaderLike<Loader>) return {Fault::no_range};
  else if constexpr (std::is_same_v<Kind, loop::Prediction> && requires { Loader::combine_mode; }) return {Fault::combined_predict};
  else if constexpr (constexpr auto moved = transfer_from<R, Source, typename Kind::Phase, Loader>(); !moved.ok())
    return moved;
  else return Evaluation<R, Kind, Batch<R, Source, typename Kind::Phase, Loader>, Pack>::verdict();
}

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
template <class Pack>
inline constexpr int wants_one_loader = 0;
template <class... Cs>
inline constexpr int wants_one_loader<Pack<Cs...>> = [] {
  int who = 0, found = 0;
  ((++who, found = found == 0 && needs_one_eval_loader<Cs>() ? who : found), ...);
  return found;
}();

/// Each loader of an evaluation.
template <class R, class Kind, class Pack, class Source>
consteval Verdict evaluation() {
  using Loaders = decltype(std::declval<Source&>().template evaluation<typename Kind::Loader>());
  if constexpr (named_twice<Loaders>) return {Fault::loader_twice};
  else if constexpr (std::tuple_size_v<Loaders> > 1 && wants_one_loader<Pack> != 0)
    return Verdict{Fault::callback_one_eval_loader}.by(wants_one_loader<Pack>);
  else return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return first(
        Verdict{sizeof...(I) == 0 ? Fault::no_range : Fault::none},
        evaluation_loader<R, Kind, Pack, Source, std::remove_reference_t<std::tuple_element_t<I, Loaders>>>().at(I)...);
  }
  (std::make_index_sequence<std::tuple_size_v<Loaders>>{});
}



template <class Source>
using ModuleOf = std::remove_reference_t<decltype(std::declval<Source&>().module())>;

/// What callbacks need of the loaders, and how data are prepared.
template <class R, class Pack, class Source>
struct Sources;
template <class R, class... Cs, class Source>
struct Sources<R, Pack<Cs...>, Source> {
  static consteval Verdict verdict() {
    constexpr bool given = std::is_same_v<ModuleOf<Source>, NoModule>;
    Verdict found;
    int who = 0;
    ((++who, found = found.ok() && given && needs_data_module<Cs>() ? Verdict{Fault::callback_needs_data_module}.by(who) : found), ...);
    if (!found.ok()) return found;
    if (!prepares_const<ModuleOf<Source>>) return Verdict{Fault::prepare_const}.by(module_at_fault);
    if (!prepares_const<typename R::Model>) return {Fault::prepare_const};
    return {};
  }
};
template <class R, class Pack, class Source>
consteval Verdict sources() {
  return Sources<R, Pack, Source>::verdict();
}

/// fit: training, and validation where both its halves are there (or NoValidation was said).
template <class R, class Pack, class Source, bool Waived>
consteval Verdict fit() {
  constexpr bool step = hook::validation_step::named<typename R::Model>;
  constexpr bool loader = Source::template evaluates<hook::val_dataloader>;
  if constexpr (constexpr auto bad = module<R, ModuleOf<Source>>(); !bad.ok()) return bad;
  else if constexpr (constexpr auto worse = sources<R, Pack, Source>(); !worse.ok()) return worse;
  else if constexpr (!Source::trains) return {Fault::no_train_loader};
  else if constexpr (step && !loader && !Waived) return {Fault::unused_validation_step};
  else if constexpr (loader && !step) return {Fault::unused_validation_loader};
  else {
    constexpr auto trained = training<R, Pack, Source>();
    if constexpr (!trained.ok() || !loader) return trained;
    else return evaluation<R, loop::Validation, Pack, Source>();
  }
}

/// validate, test or predict.
template <class R, class Kind, class Pack, class Source>
consteval Verdict evaluates() {
  if constexpr (constexpr auto bad = module<R, ModuleOf<Source>>(); !bad.ok()) return bad;
  else if constexpr (constexpr auto worse = sources<R, Pack, Source>(); !worse.ok()) return worse;
  else if constexpr (!Kind::Step::template named<typename R::Model>)
    return {Fault::missing_step, {HookFault::none, Ids<Kind>::step}};
  else if constexpr (!Source::template evaluates<typename Kind::Loader>)
    return {Fault::no_evaluation_loader, {HookFault::none, Ids<Kind>::step}};
  else return evaluation<R, Kind, Pack, Source>();
}

/// Whom a refused call is about: a participant, the data module, the model that was given, or a step with the batch it cannot take.
template <Verdict V, class R, class Given, class Source, class Kind, class... Cs>
consteval auto culprit() {
  using M = typename R::Model;
  if constexpr (V.fault == Fault::other_model || V.fault == Fault::unnamed_model || V.fault == Fault::model_pointer) return std::type_identity<Given>{};
  else if constexpr (V.who == module_at_fault) return std::type_identity<ModuleOf<Source>>{};
  else if constexpr (V.fault == Fault::step_batch && V.hook.hook == HookId::training_step) {
    using Loader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;
    return std::type_identity<refusal::takes<M, Batch<R, Source, phase::Train, Loader>>>{};
  } else if constexpr (V.fault == Fault::step_batch) {
    using Loaders = decltype(std::declval<Source&>().template evaluation<typename Kind::Loader>());
    using Loader = std::remove_reference_t<std::tuple_element_t<V.loader, Loaders>>;
    return std::type_identity<refusal::takes<M, Batch<R, Source, typename Kind::Phase, Loader>>>{};
  } else {
    return typename std::type_identity<refusal::Participant<V.who, M, typename R::Strategy, typename R::Precision, typename R::Optimization, Cs...>>::type{};
  }
}
template <Verdict V, class R, class Given, class Source, class Kind, class... Cs>
using Culprit = decltype(culprit<V, R, Given, Source, Kind, Cs...>());

/// The model of a call is the trainer's own type, and a variable. `Given` is how it was passed: `M&` is right.
template <class M, class Given>
consteval Verdict borrowed() {
  if constexpr (points<std::remove_cvref_t<Given>>) return {Fault::model_pointer};
  else if constexpr (!std::is_same_v<std::remove_cvref_t<Given>, M>) return {Fault::other_model};
  else if constexpr (!std::is_same_v<Given, M&>) return {Fault::unnamed_model};
  else return {};
}

}  // namespace fulgurite::judge
