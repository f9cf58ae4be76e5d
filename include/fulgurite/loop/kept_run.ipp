#pragma once
// The bodies of loop/kept_run.hpp.

#include <string>

#include <fulgurite/loop/kept_run.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void check_steps(RehearsalPlan const& plan) {
  if (plan.steps < 1)
    refuse_option("fulgurite.tuner.steps", "a trial run's steps", plan.steps, "it has 1 step or more");
}

FULGURITE_BULK_BODY void check_rates(std::size_t given, std::size_t groups) {
  if (given != groups)
    throw Error("fulgurite.tuner.rates", std::to_string(given) + " rates were given to " + std::to_string(groups) +
                                             " parameter groups: a plan sets one for each, as rates().now() lists them "
                                             "(more where a callback has added groups, none in an evaluation)");
}

}  // namespace fulgurite::loop
