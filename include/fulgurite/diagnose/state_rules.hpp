#pragma once
// Rules about trainers that leave files: no part of them may forget what it had learned.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <fulgurite/diagnose/optimizer_facts.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/state_facts.hpp>

namespace fulgurite::judge {

// clang-format off
/// A strategy, a precision or an optimization.
template <class T>
struct PolicyStateRules {
  using Rules = PolicyStateRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.policy.state] this policy has members that the trainer's checkpoints would forget: add "
                   "`void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`",
                   accepts<T>, Remembers<T>)
    return Fine{};
  }
};

/// What configure_optimizers returns.
template <class R>
struct OptimizerStateRules {
  using Rules = OptimizerStateRules;
  using M = typename R::Model;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.resume.optimizer] an optimizer has no state(archive), so no fit could go on from the "
                   "trainer's checkpoints: save its moments there, or write `using Stateless = fulgurite::ByChoice`",
                   accepts<M>, loop::optimizers_resume<R, ArchiveProbe>)
    FULGURITE_RULE("[fulgurite.schedule.state] a schedule changes when it is asked, and the trainer's checkpoints "
                   "would forget that: add `void state(auto& archive)`, or make its operator() const",
                   accepts<M>, all_schedules_remember<typename loop::AsList<Returned<R>>::type>)
    return Fine{};
  }
};

/// What a fit trains or validates on.
template <class L>
struct LoaderStateRules {
  using Rules = LoaderStateRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.data.state] the trainer's checkpoints would forget where this loader was: add "
                   "`resume_at(long batch)` or `state(auto& archive)`; or `using Stateless = fulgurite::ByChoice`, and "
                   "it is read from its beginning",
                   accepts<L>, loop::loader_remembers<L>)
    return Fine{};
  }
};
// clang-format on

/// The parts of a trainer whose file somebody asks for.
template <class R>
consteval auto remembered_in_files() {
  FULGURITE_RULES(first(PolicyStateRules<typename R::Strategy>::judge(),
                        PolicyStateRules<typename R::Precision>::judge(),
                        PolicyStateRules<typename R::Optimization>::judge()))
  return OptimizerStateRules<R>::judge();
}
/// Those of a trainer that leaves files.
template <class R, class... Cs>
consteval auto remembered() {
  if constexpr (!any_leaves_files<Cs...>) return Fine{};
  else return remembered_in_files<R>();
}
/// Its training loader.
template <class L, class... Cs>
consteval auto place_remembered() {
  if constexpr (!any_leaves_files<Cs...>) return Fine{};
  else return LoaderStateRules<L>::judge();
}

/// A validation loader of a fit; that of another call is read once, and forgotten.
template <bool InFit, class L, class... Cs>
consteval auto place_remembered_in() {
  if constexpr (!InFit) return Fine{};
  else return place_remembered<L, Cs...>();
}

}  // namespace fulgurite::judge
