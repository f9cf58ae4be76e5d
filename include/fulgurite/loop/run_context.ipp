#pragma once
// The bodies of loop/run_context.hpp.

#include <fulgurite/loop/run_context.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void refuse_log_place(std::string_view name, bool by_step) {
  if (by_step)
    throw Error("fulgurite.metric.no_step",
                std::string(name) +
                    " is declared with .on_step = Report::yes and logged in a hook of the epoch, where there is no "
                    "step: leave on_step out, or log it in training_step");
  throw Error("fulgurite.metric.two_places",
              std::string(name) +
                  " is logged both in steps and in a hook of the epoch: declare a second metric for one of them");
}

FULGURITE_BODY void refuse_no_rows(std::string_view name, long batch) {
  throw Error("fulgurite.metric.no_rows",
              "batch " + std::to_string(batch) + " has 0 rows, over which " + std::string(name) +
                  " has no mean: let the loader leave such a batch out, or log with {.batch_size = ...}");
}

FULGURITE_BODY void refuse_no_size(std::string_view name) {
  throw Error("fulgurite.metric.batch_size", "the batch holds no tensor to take its size from: log " +
                                                 std::string(name) +
                                                 " with {.batch_size = ...}, or give the batch a batch_size() member");
}

}  // namespace fulgurite::loop
