#pragma once
// make_trainer: a trainer's type from its arguments.

#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/hollow_trainer.hpp>
#include <fulgurite/loop/asked.hpp>

namespace fulgurite {

template <class M, class S, class P, class O, class... Cs>
class Trainer;

namespace loop {

/// An argument in a tuple of its own where it is of this kind, else an empty tuple.
template <judge::Argument Kind, class T>
auto if_is(T& given) {
  if constexpr (judge::argument_of<T>() == Kind) return std::tuple<T>(std::move(given));
  else return std::tuple<>();
}
/// The one argument of a kind as a tuple, else what `otherwise()` makes.
template <judge::Argument Kind, class Otherwise, class... Given>
auto one_of(Otherwise otherwise, Given&... given) {
  if constexpr (judge::count_of<Kind, Given...> != 0) return std::tuple_cat(if_is<Kind>(given)...);
  else return std::tuple(otherwise());
}

template <class M>
struct StrategyByDefault {
  auto operator()() const { return DefaultStrategy<M>::make(); }
};
template <class T>
struct ByDefault {
  T operator()() const { return {}; }
};

/// What the arguments of make_trainer make: the type is known before anything is made, so that a rule which the trainer
/// breaks speaks at the program's own line. `type` is hollow where the arguments themselves are refused.
template <class M, bool Sound, class... Given>
struct Assembly {
  using type = TrainerBody<false, M, int, int, int>;
};
template <class M, class... Given>
struct Assembly<M, true, Given...> {
  static auto parts(Given&... given) {
    using judge::Argument;
    return std::tuple_cat(one_of<Argument::strategy>(StrategyByDefault<M>{}, given...),
                          one_of<Argument::precision>(ByDefault<Float32>{}, given...),
                          one_of<Argument::optimization>(ByDefault<Automatic>{}, given...),
                          if_is<Argument::callback>(given)..., added());
  }
  static auto added() {
    if constexpr (judge::PartRules<M, Given...>::adds) return DefaultCallbacks<Given...>::make();
    else return std::tuple<>();
  }
  template <class Parts>
  struct Of;
  template <class... Parts>
  struct Of<std::tuple<Parts...>> : std::type_identity<Trainer<M, Parts...>> {};
  using type = typename Of<decltype(parts(std::declval<Given&>()...))>::type;

  static type make(TrainerOptions options, Given&... given) {
    auto made = parts(given...);
    constexpr AddedCallbacks callbacks{std::tuple_size_v<decltype(added())>};
    return std::apply([&](auto&... part) { return type(callbacks, std::move(options), std::move(part)...); }, made);
  }
};
/// That of a call which is not in order; nothing is asked about one that is.
template <class M, bool InOrder, class... Given>
struct AssemblyOf {
  using type = void;
};
template <class M, class... Given>
struct AssemblyOf<M, false, Given...> : Assembly<M, decltype(judge::PartRules<M, Given...>::judge())::ok, Given...> {};

}  // namespace loop

/// A trainer with everything named: it has these policies and callbacks, and nothing else. Who names the third policy
/// has no bar, summary, log, checkpoint and table any more that he does not name; Defaults{} adds them, and so does a
/// word that leaves out one of them, such as NoLogger{}.
///   auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, SingleDevice{cpu}, Float32{}, Automatic{},
///                                    ProgressBar{});
template <class M, class S, class P, class O, class... Cs>
  requires(judge::in_order<TrainerOptions, S, P, O, Cs...>)
Trainer<M, S, P, O, Cs...> make_trainer(TrainerOptions options, S strategy, P precision, O optimization,
                                        Cs... callbacks) {
  return Trainer<M, S, P, O, Cs...>(std::move(options), std::move(strategy), std::move(precision),
                                    std::move(optimization), std::move(callbacks)...);
}

/// The same from less, in any order; fulgurite/defaults.hpp says what is taken in the place of what is left out.
///   auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
///   auto other = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, EarlyStopping{Net::val_loss}, Bf16Mixed{});
template <class M, class... Given>
  requires(!judge::in_order<TrainerOptions, Given...>)
auto make_trainer(TrainerOptions options, Given... given) ->
    typename loop::AssemblyOf<M, judge::in_order<TrainerOptions, Given...>, Given...>::type {
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
