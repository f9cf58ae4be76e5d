#pragma once
// The sentence about a name that looks like a hook and is none; its rows stand in near_miss_refusals.hpp and
// misspelt_*.hpp.

#pragma GCC system_header  // spares g++ the trace through the macro below

#include <fulgurite/diagnose/about_hook.hpp>

// clang-format off
#define FULGURITE_NEAR_MISS(NAME, MEANT)                                                                               \
  template <> struct About<HookId::NAME> {                                                                             \
    template <bool, class Whom> static consteval auto judge() {                                                        \
      static_assert(judge::accepts<typename Whom::Subject>, "[fulgurite.hook.near_miss] " #NAME                        \
                    " is not a hook and would never be called: use " MEANT);                                           \
    }                                                                                                                  \
  };
// clang-format on
