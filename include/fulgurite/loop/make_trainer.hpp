#pragma once
// make_trainer: a trainer's type from its arguments.

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/slots.hpp>
#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/hollow_trainer.hpp>
#include <fulgurite/loop/asked.hpp>

namespace fulgurite {

template <class M, class S, class P, class O, class... Cs>
class Trainer;

namespace loop {

/// Where the arguments of a kind stand among `Given`.
template <judge::Argument Kind, class... Given>
consteval auto places() {
  std::array<std::size_t, judge::count_of<Kind, Given...>> places{};
  std::size_t at = 0, found = 0;
  ((judge::argument_of<Given>() == Kind ? void(places[found++] = at) : void(), ++at), ...);
  return places;
}

template <class T>
struct ByDefault {
  static T make() { return {}; }
};

/// What the arguments of make_trainer make: the type is known before anything is made, so that a rule which the trainer
/// breaks speaks at the program's own line. `type` is hollow where the arguments themselves are refused.
template <class M, bool Sound, class... Given>
struct Assembly {
  using type = TrainerBody<false, M, int, int, int>;
};
template <class M, class... Given>
struct Assembly<M, true, Given...> {
  using All = Slots<Given*...>;
  static constexpr auto callbacks = places<judge::Argument::callback, Given...>();

  /// The one that is named, else that of the defaults.
  template <judge::Argument Kind, class Otherwise>
  static auto policy([[maybe_unused]] All& given) {
    constexpr auto place = places<Kind, Given...>();
    if constexpr (place.size() != 0) return std::move(*given.template get<place[0]>());
    else return Otherwise::make();
  }
  static auto strategy(All& given) { return policy<judge::Argument::strategy, DefaultStrategy<M>>(given); }
  static auto precision(All& given) { return policy<judge::Argument::precision, ByDefault<Float32>>(given); }
  static auto optimization(All& given) { return policy<judge::Argument::optimization, ByDefault<Automatic>>(given); }
  static auto added() {
    if constexpr (judge::PartRules<M, Given...>::adds) return DefaultCallbacks<Given...>::make();
    else return std::tuple<>();
  }

  template <class Named, class Added>
  struct Of;
  template <std::size_t... I, class... Added>
  struct Of<std::index_sequence<I...>, std::tuple<Added...>> {
    using type = Trainer<M, decltype(strategy(std::declval<All&>())), decltype(precision(std::declval<All&>())),
                         decltype(optimization(std::declval<All&>())), TypeAt<callbacks[I], Given...>..., Added...>;
    static type make(TrainerOptions options, All given, [[maybe_unused]] std::tuple<Added...> added) {
      return type(AddedCallbacks{sizeof...(Added)}, std::move(options), strategy(given), precision(given),
                  optimization(given), std::move(*given.template get<callbacks[I]>())...,
                  std::move(std::get<Added>(added))...);
    }
  };
  using Whole = Of<std::make_index_sequence<callbacks.size()>, decltype(added())>;
  using type = typename Whole::type;

  static type make(TrainerOptions options, Given&... given) {
    return Whole::make(std::move(options), All(&given...), added());
  }
};
/// The assembly of a call that leaves parts to defaults. A call that names everything needs none: `type` is void.
template <class M, bool AsWritten, class... Given>
struct AssemblyOf {
  using type = void;
};
template <class M, class... Given>
struct AssemblyOf<M, false, Given...> : Assembly<M, decltype(judge::PartRules<M, Given...>::judge())::ok, Given...> {};

}  // namespace loop

/// A trainer that is what is written, since its tensor library adds nothing: the shortest way to its type.
template <class M, class S, class P, class O, class... Cs>
  requires(judge::as_written<TrainerOptions, S, P, O, Cs...>)
Trainer<M, S, P, O, Cs...> make_trainer(TrainerOptions options, S strategy, P precision, O optimization,
                                        Cs... callbacks) {
  return Trainer<M, S, P, O, Cs...>(std::move(options), std::move(strategy), std::move(precision),
                                    std::move(optimization), std::move(callbacks)...);
}

/// A trainer from options, then policies, callbacks and words in any order. fulgurite/defaults.hpp says what is taken
/// in the place of a policy that is not named, and which callbacks are added, whatever is named: one of the same kind
/// replaces one of these, a word such as NoLogger{} leaves one out, NoDefaults{} all of them.
///   auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
///   auto other = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, EarlyStopping{Net::val_loss}, Bf16Mixed{});
///   auto bare = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, SingleDevice{cpu}, NoDefaults{});
template <class M, class... Given>
  requires(!judge::as_written<TrainerOptions, Given...>)
auto make_trainer(TrainerOptions options, Given... given) ->
    typename loop::AssemblyOf<M, judge::as_written<TrainerOptions, Given...>, Given...>::type {
  using Rules = judge::PartRules<M, Given...>;
  static_cast<void>(Rules::template judge<true>());
  if constexpr (decltype(Rules::judge())::ok)
    return loop::Assembly<M, true, Given...>::make(std::move(options), given...);
  else return {};
}
/// Refused: options come first.
template <class M, class... Args>
  requires(!judge::begins_with_options<Args...>)
TrainerBody<false, M, int, int, int> make_trainer(Args&&...) {
  static_cast<void>(judge::ArgumentRules<M, false>::template judge<true>());
  return {};
}

/// The model is named by its type alone: `make_trainer(net, TrainerOptions{...})` is make_trainer<Net>(...), and
/// `fit(net, data)` is given the model.
template <int = 0, class Model, class... Args>
  requires(std::is_class_v<std::remove_cvref_t<Model>> &&
           !std::is_convertible_v<std::remove_cvref_t<Model>, TrainerOptions>)
auto make_trainer(Model&&, Args&&... args)
    -> decltype(make_trainer<std::remove_cvref_t<Model>>(std::forward<Args>(args)...)) {
  return make_trainer<std::remove_cvref_t<Model>>(std::forward<Args>(args)...);
}
/// Refused: neither a type in angle brackets nor a model. A type is no number, so only calls without one come here.
template <int = 0, class... Args>
TrainerBody<false, int, int, int, int> make_trainer(Args&&...) {
  static_cast<void>(judge::NamelessRules<Args...>::template judge<true>());
  return {};
}

}  // namespace fulgurite
