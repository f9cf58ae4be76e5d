#pragma once
// How a rule is written: one row with the condition, the type at fault if it does not hold, and the sentence.

#include <string_view>
#include <tuple>
#include <type_traits>

#include <fulgurite/hook/faults.hpp>

namespace fulgurite::refusal {

// Types that appear in messages, or that replace the result of a refused call.

/// The arguments of a call with a wrong number of them.
template <class... Args>
struct given;

/// A step and a batch that it does not take.
template <class Model, class Batch>
struct takes;

/// Replaces the result of a refused call, and suppresses further errors.
struct Nothing {
  template <class T>
  operator T() const;
};
/// Replaces a result after a refusal, so that nothing else is reported. Never called.
template <class T>
T& nothing();

/// The type that was found, if there is exactly one.
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
    : MadeFrom<T, std::conditional_t<is_of<T, C>, std::tuple<Found..., C>, std::tuple<Found...>>, Cs...> {};
/// The type in `Cs` that is made from the template; `found` is true if there is exactly one.
template <template <class...> class T, class... Cs>
using Only = MadeFrom<T, std::tuple<>, Cs...>;

/// The sentences about one name of a hook, in hook_refusals.hpp, or in near_miss_refusals.hpp for a name that is almost
/// a hook; `judge<true, Botched<...>>()` reports the one that applies.
template <HookId Hook>
struct About;

}  // namespace fulgurite::refusal

#pragma GCC system_header  // shortens g++'s output: it omits the trace through the macros below

namespace fulgurite::judge {

/// The type that a rule refuses. Compilers print the condition of a static_assert, so the type at fault is part of the
/// message: `accepts<Net>`.
template <class Subject>
struct Refused {
  using type = Subject;
  constexpr explicit operator bool() const { return false; }
};
/// The type that a rule refuses, as the compiler prints it. Used in rows of FULGURITE_RULE.
template <class Subject>
inline constexpr Refused<Subject> accepts{};

/// The identifier at the beginning of a sentence, without its brackets.
constexpr std::string_view identifier(std::string_view sentence) {
  return sentence.empty() ? sentence : sentence.substr(1, sentence.find(']') - 1);
}

/// The verdict if all rules hold.
struct Fine {
  static constexpr bool ok = true;
  using Rules = Fine;
  using Whom = void;
  template <bool Says, class>
  static consteval void judge() {}
  static constexpr std::string_view id() { return {}; }
};

/// The verdict if a rule does not hold: the class of that rule, the type that it refuses, and the sentence.
/// `Rules::judge<true, Whom>()` is the error with that sentence; nothing else reports it, so a verdict can be computed
/// without an error.
template <class R, class W>
struct Broken {
  static constexpr bool ok = false;
  using Rules = R;
  using Whom = W;
  std::string_view sentence;
  constexpr std::string_view id() const { return identifier(sentence); }
};

/// Begins the rows of a class of rules, whose last line is `return Fine{};`. They are evaluated in that order, and a
/// rule after a broken one is not instantiated.
#define FULGURITE_JUDGE(CLASS)                                                                                         \
  using Rules = CLASS;                                                                                                 \
  template <bool Says = false, class = void>                                                                           \
  static consteval auto judge()

/// A row: "[fulgurite.area.rule] the sentence", accepts<TypeAtFault>, the condition.
#define FULGURITE_RULE(SENTENCE, WHOM, ...)                                                                            \
  if constexpr (!(__VA_ARGS__)) {                                                                                      \
    if constexpr (Says) static_assert(WHOM, SENTENCE);                                                                 \
    return ::fulgurite::judge::Broken<Rules, std::remove_const_t<decltype(WHOM)>>{SENTENCE};                           \
  } else

/// Includes other rules, given as an expression whose value is their verdict.
#define FULGURITE_RULES(...)                                                                                           \
  if constexpr (!decltype(__VA_ARGS__)::ok) return __VA_ARGS__;                                                        \
  else

/// The first of several verdicts that is not Fine.
template <class V, class... Vs>
consteval auto first_of(V verdict, Vs... rest) {
  if constexpr (!V::ok) return verdict;
  else return first_of(rest...);
}
/// The first verdict that is not Fine; Fine if there is none.
template <class... Vs>
consteval auto first(Vs... verdicts) {
  if constexpr ((Vs::ok && ...)) return Fine{};
  else return first_of(verdicts...);
}

// Leads from a fault of a hook to the sentence about it.

/// The participant whose hook is wrong, and what is wrong with it.
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

/// Reports what is wrong with the hooks of one participant.
#define FULGURITE_HOOKS(SUBJECT, ...)                                                                                  \
  if constexpr (bool(__VA_ARGS__)) return ::fulgurite::judge::about<__VA_ARGS__, SUBJECT>();                           \
  else

}  // namespace fulgurite::judge
