#pragma once
// The bodies of callback/gradient_accumulation_scheduler.hpp.

#include <iterator>

#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite {

FULGURITE_BODY GradientAccumulationScheduler::GradientAccumulationScheduler(
    std::initializer_list<std::pair<int const, int>> scheduling)
    : GradientAccumulationScheduler(std::map<int, int>(scheduling)) {}

FULGURITE_BODY GradientAccumulationScheduler::GradientAccumulationScheduler(std::map<int, int> scheduling)
    : scheduling_(std::move(scheduling)) {
  if (scheduling_.empty()) refuse("has an empty schedule: give it at least one epoch, such as {{4, 2}}");
  for (auto const& [epoch, window] : scheduling_) {
    if (epoch < 0) refuse("names epoch " + std::to_string(epoch) + ": epochs count from 0");
    if (window < 1)
      refuse("asks for " + std::to_string(window) + " batches from epoch " + std::to_string(epoch) +
             " on: a window has at least 1");
  }
}

FULGURITE_BODY int GradientAccumulationScheduler::window(int epoch) const {
  auto const next = scheduling_.upper_bound(epoch);
  return next == scheduling_.begin() ? 1 : std::prev(next)->second;
}

void GradientAccumulationScheduler::state(auto& archive) {
  archive.option("scheduling", listed(scheduling_, [](auto const& one) {
                   return std::to_string(one.first) + ": " + std::to_string(one.second);
                 }));
}
FULGURITE_STATE(GradientAccumulationScheduler)

}  // namespace fulgurite
