#pragma once
// One event of a run: the callbacks hear it in firing order, then the model, then the strategy.

#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/untold.hpp>

namespace fulgurite::loop {

/// Statements of their own: the order of evaluation of arguments differs between compilers.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline void tell_all_of(HeardSoFar& told, State<R>& run, Pack& pack, Args&... args) {
  pack.template fire<Hook>(told, *run.parts.model, args...);
  if constexpr (strategy_hears<Hook> && Listens<Hook, typename R::Strategy, Args...>)
    pack.template tell_watched<Hook, "Strategy">(told, run.parts.strategy, args...);
}

/// Where one throws it is noted who had heard of an event that nobody shall hear of twice; nothing is counted before.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline Flow tell(State<R>& run, Pack& pack, Args&... args) {
  HeardSoFar told;
  if constexpr (heard_once<Hook>) {
    try {
      tell_all_of<Hook>(told, run, pack, args...);
    } catch (...) {
      note_heard<Hook, Args...>(run, pack, told);
      throw;
    }
  } else {
    tell_all_of<Hook>(told, run, pack, args...);
  }
  return told.gravest;
}

}  // namespace fulgurite::loop
