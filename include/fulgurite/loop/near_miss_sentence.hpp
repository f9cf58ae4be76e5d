#pragma once
// The sentence about a name that looks like a hook and is none; its rows stand in near_miss_refusals.hpp and
// misspelt_*.hpp.

#pragma GCC system_header  // spares g++ the trace through the macro below

#include <fulgurite/concept/verdict.hpp>
#include <fulgurite/loop/subject.hpp>

namespace fulgurite::refusal {

template <HookId Hook>
struct About;  // see refusals.hpp

// clang-format off
#define FULGURITE_NEAR_MISS(NAME, MEANT)                                                                \
  template <> struct About<HookId::NAME> {                                                              \
    template <Verdict V, class Subject, bool Fine = V.ok()> static constexpr auto say() {               \
      static_assert(accepts<Subject, Fine>, "[fulgurite.hook.near_miss] " #NAME                         \
                                            " is not a hook and would never be called: use " MEANT);    \
    }                                                                                                   \
  };
// clang-format on

}  // namespace fulgurite::refusal
