#pragma once
// The bodies of loop/whole_run.hpp.

#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void warn_of_options(std::vector<std::string> const& differences, Warn warn) {
  std::string all;
  for (auto const& one : differences) all += (all.empty() ? "" : "; ") + one;
  if (!all.empty())
    warn("fulgurite.resume.options", "the program has other options than the file, and its own are used: " + all);
}

}  // namespace fulgurite::loop

namespace fulgurite::loop {

FULGURITE_BULK_BODY void refuse_open(RunCore const& run, std::string const& what) {
  if (run.loading.fit_is_open)
    throw Error("fulgurite.trainer.open_fit",
                what + " inside of a fit, which keeps what it began with: do so before or after it");
}

}  // namespace fulgurite::loop
