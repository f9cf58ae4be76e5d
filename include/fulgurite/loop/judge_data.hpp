#pragma once
// The verdict on a data module: its names, what it shares with the model, how it prepares.

#include <type_traits>

#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/judge.hpp>

namespace fulgurite::judge {

template <class T>
concept Probeable = std::is_class_v<T> && !std::is_final_v<T>;

/// What the data module and the model both have, and only one of them can give. `using OverridesModel = ...` in the data module says that its
/// own are meant, as in Lightning.
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

/// Hooks of models and callbacks, which nobody asks of a data module. One that is a model, too, says `using OverridesModel = ...`.
template <class Module>
consteval HookVerdict foreign_to_data() {
  if constexpr (requires { typename Module::OverridesModel; }) return {};
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (!std::is_same_v<hook::NAME, hook::setup> && !std::is_same_v<hook::NAME, hook::teardown> &&             \
                !std::is_same_v<hook::NAME, hook::on_exception> && hook::NAME::named<Module>)                          \
    return {HookFault::not_of_data, HookId::NAME};
  FULGURITE_EVENTS(FULGURITE_ROW)
  FULGURITE_OVERRIDES(FULGURITE_ROW)
  FULGURITE_STEPS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

/// prepare_data runs in one process of several, so what it leaves in its object the others would not have.
template <class T>
inline constexpr bool prepares_const = true;
template <class T>
  requires(hook::prepare_data::accepts<T>)
inline constexpr bool prepares_const<T> = requires(T const& object) { object.prepare_data(); };

/// A data module's own names, where the data module is not the model.
template <class R, class Module>
consteval Verdict module() {
  if constexpr (points<Module>) return Verdict{Fault::data_pointer}.by(module_at_fault);
  else if constexpr (std::is_class_v<Module> && std::is_final_v<Module>) return {Fault::module_final};
  else if constexpr (!Probeable<Module> || std::is_same_v<Module, NoModule> ||
                     std::is_same_v<Module, typename R::Model>)
    return {};
  else
    return about(worst(misspelt<Module>(), data_calls<Module>(), foreign_to_data<Module>(),
                       HookVerdict{hook::event_fault<hook::setup, Module, true, Context<R, phase::Fit>>(), HookId::setup},
                       HookVerdict{hook::event_fault<hook::teardown, Module, true, Context<R, phase::Fit>>(), HookId::teardown},
                       two_sources<Module, typename R::Model>()))
        .by(module_at_fault);
}

}  // namespace fulgurite::judge
