#pragma once
// How a rule is written: one row that says what must hold, who is at fault where it does not, and the sentence.

#pragma GCC system_header  // spares g++ the trace through the macros below

#include <string_view>
#include <type_traits>

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
