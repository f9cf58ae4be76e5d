#pragma once
// The bodies of loop/found_checkpoints.hpp.

#include <fulgurite/loop/found_checkpoints.hpp>

namespace fulgurite::loop {

FULGURITE_BODY CheckpointSearch search_of(RunCore const& run) {
  return checkpoint_search(run.callbacks, run.asked.options, run.program->model_name);
}

FULGURITE_BODY std::vector<std::filesystem::path>
last_checkpoints(RunCore const& run, CheckpointSearch const& search, bool of_those_that_resume,
                 std::int64_t (*steps_of)(std::filesystem::path const&)) {
  return newest_first(last_checkpoints(run.callbacks, search, of_those_that_resume),
                      [steps_of](std::filesystem::path const& file) { return steps_of(file); });
}

FULGURITE_BULK_BODY void refuse_weights_alone(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights alone (was it saved with save_weights_only?), so no fit can go on from it: "
                     "load_weights(model, file) begins a new run with its weights");
}

FULGURITE_BULK_BODY void refuse_weights_of_others(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights and nothing of a run (what Python's programs keep beside them is not read), so no "
                     "fit can go on from it: load_weights(model, file) before fit begins a new run with its weights, "
                     "and evaluations take it as it is");
}

}  // namespace fulgurite::loop
