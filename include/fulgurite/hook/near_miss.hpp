#pragma once
// Has a class a name that looks like a hook and is none? It would be silently ignored. Names can only be probed one by
// one; beyond the table, a promise (`using Hooks = Implements<...>`) is the net.

#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/near_miss_names.hpp>

namespace fulgurite::near_miss {

struct Decoy {
#define FULGURITE_ROW(NAME, ...) void NAME();
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};
/// One class may derive from another, and both be asked: the names are looked for in a class that derives from each
/// through a part of its own.
template <class T>
struct Part : T {};
template <class... Ts>
struct Probe : Part<Ts>..., Decoy {};

/// No name of the table at all: one question for nearly every class.
template <class P>
concept Clean = requires {
#define FULGURITE_ROW(NAME, ...) &P::NAME;
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};

// The same of what is asked for names of its own: callbacks, loaders, optimizers, schedules, strategies.
#define FULGURITE_DECOY(NAME) void NAME();
#define FULGURITE_NONE(NAME) &P::NAME;
#define FULGURITE_KIND(KIND, NAMES)                                                                                    \
  struct KIND##Decoy {                                                                                                 \
    NAMES(FULGURITE_DECOY)                                                                                             \
  };                                                                                                                   \
  template <class T>                                                                                                   \
  struct KIND##Probe : T, KIND##Decoy {};                                                                              \
  template <class P>                                                                                                   \
  concept Clean##KIND = requires { NAMES(FULGURITE_NONE) };
FULGURITE_KIND(Callback, FULGURITE_NEAR_MISSES_OF_CALLBACKS)
FULGURITE_KIND(Loader, FULGURITE_NEAR_MISSES_OF_LOADERS)
FULGURITE_KIND(Optimizer, FULGURITE_NEAR_MISSES_OF_OPTIMIZERS)
FULGURITE_KIND(Schedule, FULGURITE_NEAR_MISSES_OF_SCHEDULES)
FULGURITE_KIND(Strategy, FULGURITE_NEAR_MISSES_OF_STRATEGIES)
#undef FULGURITE_KIND
#undef FULGURITE_NONE
#undef FULGURITE_DECOY

}  // namespace fulgurite::near_miss
