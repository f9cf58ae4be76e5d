#pragma once
// Why a fit has ended, in words.

#include <string>

#include <fulgurite/core/time_text.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// Empty where nothing has ended it.
template <class R>
std::string end_reason(State<R> const& run) {
  auto const& options = run.asked.options;
  auto const& stop = run.due.stop;
  if (steps_exhausted(run)) return "max_steps = " + std::to_string(*options.max_steps);
  if (epochs_exhausted(run)) return "max_epochs = " + std::to_string(*options.max_epochs);
  if (!stops(run)) return {};
  if (!stop.asked && !stop.monitors.empty()) return stop.monitors.front().why;
  if (!stop.why.empty()) return stop.why;
  return stop.by_time ? "max_time" : "a stop that the model or a callback requested";
}

}  // namespace fulgurite::loop
