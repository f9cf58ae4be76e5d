#pragma once
// From what is wrong with a hook to the sentence about it. The sentences stand in hook_refusals.hpp, those about
// optimizers, schedules and strategies in function_refusals.hpp, those about names that are almost hooks in
// near_miss_refusals.hpp and misspelt_*.hpp.

#pragma GCC system_header  // spares g++ the trace through the macro below

#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/hook/faults.hpp>

namespace fulgurite {

namespace refusal {
/// The sentences about one name, of which `judge<true, Botched<...>>()` says the one that is due.
template <HookId Hook>
struct About;
}  // namespace refusal

namespace judge {

/// Whose hook, and what is wrong with it.
template <HookVerdict V, class S>
struct Botched {
  static constexpr HookVerdict hook = V;
  static constexpr HookFault fault = V.fault;
  using Subject = S;
};

/// The verdict on a hook of `Subject`.
template <HookVerdict V, class Subject>
consteval auto about() {
  if constexpr (!V) return Fine{};
  else return Broken<refusal::About<V.hook>, Botched<V, Subject>>{};
}

/// What is wrong with the hooks of one participant.
#define FULGURITE_HOOKS(SUBJECT, ...)                                                                                  \
  if constexpr (bool(__VA_ARGS__)) return ::fulgurite::judge::about<__VA_ARGS__, SUBJECT>();                           \
  else

}  // namespace judge
}  // namespace fulgurite
