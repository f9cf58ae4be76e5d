#pragma once
// Part of a run's state: what is watched while it goes.

#include <type_traits>

#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/finite_watch.hpp>
#include <fulgurite/loop/manual_watch.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/policy/checks_replays.hpp>

namespace fulgurite::loop {

template <class R>
struct Watch {
  FiniteWatch<typename R::Value> finite{};
  std::conditional_t<R::automatic, ManualWatch<0>, ManualWatch<Optimizers<R>::count>> manual{};
  /// Questions to a context, since they were last forgotten.
  [[no_unique_address]] std::conditional_t<ChecksReplays<typename R::Strategy>, Questions, NoQuestions> questions{};
};

}  // namespace fulgurite::loop
