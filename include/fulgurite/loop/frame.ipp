#pragma once
// The bodies of loop/frame.hpp.

#include <string_view>

#include <fulgurite/loop/frame.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void leave_run(RunCore& run) {
  leave_folders(run.callbacks);
  run.made.log_dir = run.made.log_dir_before;
  run.made.outcome.metrics_file = run.made.metrics_file_before;
}

FULGURITE_BODY void clean_up(Warnings& said, Silence const& silence, bool interrupted, FunctionRef<void()> work) {
  std::string_view const identifier = "fulgurite.exception.second";
  bool const aloud = !silence.has(identifier);
  try {
    work();
  } catch (std::exception const& second) {
    if (interrupted && dynamic_cast<Interrupted const*>(&second) != nullptr) return;
    said.each(identifier, std::string("after the exception that ended the run, this failed too: ") + second.what(),
              aloud);
  } catch (...) {
    said.each(identifier, "after the exception that ended the run, something was thrown that is no std::exception",
              aloud);
  }
}

}  // namespace fulgurite::loop
