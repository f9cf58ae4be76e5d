#pragma once
// The state of one scheduler with the rates that it moves, as a run saves both.

#include <type_traits>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/scheduler.hpp>

namespace probe {

template <class S>
struct WithRates {
  S& scheduler;
  void state(auto& archive) {
    archive.child("rates", [&](auto& inner) { scheduler.composed().state(scheduler.optimizer(), inner); });
    archive.child("scheduler", scheduler);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) scheduler.composed().settle(scheduler.optimizer());
  }
};
template <class S>
void resume_from(S& saved, S& into) {
  WithRates<S> from{saved}, to{into};
  fulgurite::load_state_text(to, fulgurite::state_text(from));
}

}  // namespace probe
