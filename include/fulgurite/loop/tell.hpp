#pragma once
// One event of a run: the callbacks hear it in firing order, then the model, then the strategy.

#include <type_traits>

#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// A strategy may have any event but these two: they are the names under which it takes and releases the model.
template <class Hook>
inline constexpr bool strategy_hears = !std::is_same_v<Hook, hook::setup> && !std::is_same_v<Hook, hook::teardown>;

/// Statements of their own: the order of evaluation of arguments differs between compilers.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline Flow tell(State<R>& run, Pack& pack, Args&... args) {
  Flow const said = pack.template fire<Hook>(*run.parts.model, args...);
  if constexpr (strategy_hears<Hook> && Listens<Hook, typename R::Strategy, Args...>)
    return graver(said, answer_of<Hook>(run.parts.strategy, args...));
  else return said;
}

}  // namespace fulgurite::loop
