#pragma once
// The bodies of loop/run_position.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/run_position.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY Limits::Limits(TrainerOptions const& options)
    : epochs(options.max_epochs),
      steps(options.max_steps),
      seconds(options.max_time ? std::optional(options.max_time->count()) : std::nullopt) {}

void Limits::state(auto& archive) { archive("max_epochs", epochs)("max_steps", steps)("max_time", seconds); }
FULGURITE_STATE(Limits)

}  // namespace fulgurite::loop
