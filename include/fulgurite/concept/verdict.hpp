#pragma once
// One verdict on a whole trainer, or on a call of fit: the first thing that is wrong, from cheap and general to specific.

#include <fulgurite/concept/callback.hpp>
#include <fulgurite/concept/model.hpp>
#include <fulgurite/concept/policy.hpp>

namespace fulgurite::judge {

/// Everything that can be said before a context exists.
template <class M, class S, class P, class O, class... Cs>
consteval Verdict parts() {
  if constexpr (constexpr auto bad = policies<M, S, P, O>(); !bad.ok()) return bad;
  else if constexpr (constexpr auto worse = model<M>(); !worse.ok()) return worse;
  else return callbacks<typename MetricsOf<M>::type, Cs...>();
}

/// The first of several verdicts that is not good.
constexpr Verdict first(Verdict a) { return a; }
template <class... Vs>
constexpr Verdict first(Verdict a, Vs... rest) {
  return a.ok() ? first(rest...) : a;
}

}  // namespace fulgurite::judge
