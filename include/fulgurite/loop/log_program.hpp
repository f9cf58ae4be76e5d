#pragma once
// Tells the loggers which program runs.

#include <type_traits>

#include <fulgurite/fwd.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Each logger that has `log_program` is handed the trainer's type and what was asked of it, of which it makes the text
/// that stands beside a run's rows. Called when fit has started, before its first batch.
template <class R, class... Cs>
void log_program(State<R>& run, Pack<Cs...>& pack) {
  auto const& options = run.asked.options;
  if (run.parts.strategy.rank() != 0 || options.fast_dev_run != 0 || options.barebones) return;
  using Whole =
      Trainer<typename R::Model, typename R::Strategy, typename R::Precision, typename R::Optimization, Cs...>;
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_program(std::type_identity<Whole>(), run.asked); })
      callback.log_program(std::type_identity<Whole>(), run.asked);
  });
}

}  // namespace fulgurite::loop
