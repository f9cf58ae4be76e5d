#pragma once
// How a rule is written: one row that says what must hold, who is at fault where it does not, and the sentence.

#include <string_view>
#include <tuple>
#include <type_traits>

#include <fulgurite/hook/faults.hpp>

namespace fulgurite::refusal {

// Types that stand in a message, or in the place of what a refused call would have returned.

/// The arguments of a call that has the wrong number of them.
template <class... Args>
struct given;

/// A step and the batch that it cannot take.
template <class Model, class Batch>
struct takes;

/// Stands for what a refused call would have returned, and lets nothing else be reported.
struct Nothing {
  template <class T>
  operator T() const;
};
/// In the place of a result after a refusal, so that nothing else is said. Never called.
template <class T>
T& nothing();

/// The callbacks made from a class template, such as ModelCheckpoint.
template <template <class...> class T, class C>
inline constexpr bool made_from = false;
template <template <class...> class T, class... Args>
inline constexpr bool made_from<T, T<Args...>> = true;
/// The only type of those found, where there is one alone.
template <class... Found>
struct OneOf : std::type_identity<Nothing> {
  static constexpr bool found = false;
};
template <class Found>
struct OneOf<Found> : std::type_identity<Found> {
  static constexpr bool found = true;
};
template <template <class...> class T, class Found, class... Cs>
struct MadeFrom;
template <template <class...> class T, class... Found>
struct MadeFrom<T, std::tuple<Found...>> : OneOf<Found...> {};
template <template <class...> class T, class... Found, class C, class... Cs>
struct MadeFrom<T, std::tuple<Found...>, C, Cs...>
    : MadeFrom<T, std::conditional_t<made_from<T, C>, std::tuple<Found..., C>, std::tuple<Found...>>, Cs...> {};
/// The one of `Cs` that is made from the template; `found` says whether there is exactly one.
template <template <class...> class T, class... Cs>
using Only = MadeFrom<T, std::tuple<>, Cs...>;

}  // namespace fulgurite::refusal

#pragma GCC system_header  // spares g++ the trace through the macros below

namespace fulgurite::judge {

/// Whom a rule refuses. Compilers print what a static_assert asks for, so the type at fault stands in the message:
/// `accepts<Net>`.
template <class Subject>
struct Refused {
  using type = Subject;
  constexpr explicit operator bool() const { return false; }
};
/// Whom a rule refuses, as the compiler prints it: the Subject. Used in rows of FULGURITE_RULE.
template <class Subject>
inline constexpr Refused<Subject> accepts{};

/// The identifier at the beginning of a sentence, without its brackets.
constexpr std::string_view identifier(std::string_view sentence) {
  return sentence.empty() ? sentence : sentence.substr(1, sentence.find(']') - 1);
}

/// The verdict where all rules hold.
struct Fine {
  static constexpr bool ok = true;
  using Rules = Fine;
  using Whom = void;
  template <bool Says, class>
  static consteval void judge() {}
  static constexpr std::string_view id() { return {}; }
};

/// The verdict where one does not: the rules that it belongs to, whom it refuses, what it says.
/// `Rules::judge<true, Whom>()` is the error with that sentence; nothing else says it, so that a verdict can be asked
/// for without one.
template <class R, class W>
struct Broken {
  static constexpr bool ok = false;
  using Rules = R;
  using Whom = W;
  std::string_view sentence;
  constexpr std::string_view id() const { return identifier(sentence); }
};

// Rules stand one after the other in a function `template <bool Says = false, class = void> static consteval auto
// judge()` of a class that calls itself `Rules`, and `return Fine{};` ends them. They are judged in that order, and a
// rule is not instantiated where one before it is broken.

/// A row: "[fulgurite.area.rule] the sentence", accepts<WhomItRefuses>, what must hold.
#define FULGURITE_RULE(SENTENCE, WHOM, ...)                                                                            \
  if constexpr (!(__VA_ARGS__)) {                                                                                      \
    if constexpr (Says) static_assert(WHOM, SENTENCE);                                                                 \
    return ::fulgurite::judge::Broken<Rules, std::remove_const_t<decltype(WHOM)>>{SENTENCE};                           \
  } else

/// Other rules, of which one may be broken: an expression that is their verdict.
#define FULGURITE_RULES(...)                                                                                           \
  if constexpr (!decltype(__VA_ARGS__)::ok) return __VA_ARGS__;                                                        \
  else

/// The first of several verdicts that is not fine.
template <class V, class... Vs>
consteval auto first_of(V verdict, Vs... rest) {
  if constexpr (!V::ok) return verdict;
  else return first_of(rest...);
}
/// The first verdict that is not fine; Fine where all are.
template <class... Vs>
consteval auto first(Vs... verdicts) {
  if constexpr ((Vs::ok && ...)) return Fine{};
  else return first_of(verdicts...);
}

}  // namespace fulgurite::judge

// From what is wrong with a hook to the sentence about it. The sentences stand in hook_refusals.hpp, those about
// optimizers, schedules and strategies in hook_refusals.hpp, those about names that are almost hooks in
// near_miss_refusals.hpp and misspelt_*.hpp.

#pragma GCC system_header  // spares g++ the trace through the macro below

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

// The sentence about a name that looks like a hook and is none; its rows stand in near_miss_refusals.hpp and
// misspelt_*.hpp.

#pragma GCC system_header  // spares g++ the trace through the macro below

// clang-format off
#define FULGURITE_NEAR_MISS(NAME, MEANT)                                                                               \
  template <> struct About<HookId::NAME> {                                                                             \
    template <bool, class Whom> static consteval auto judge() {                                                        \
      static_assert(judge::accepts<typename Whom::Subject>, "[fulgurite.hook.near_miss] " #NAME                        \
                    " is not a hook and would never be called: use " MEANT);                                           \
    }                                                                                                                  \
  };
// clang-format on
