#pragma once
// The handlers of signals while a run ends by an exception.

#include <memory>
#include <string>
#include <utility>

#include <fulgurite/core/caught_signals.hpp>

namespace fulgurite {

/// A run that ends by another exception. A signal that comes on its way ends nothing more, which is said.
template <class Ctx>
struct FailingRun {
  std::shared_ptr<CaughtSignals> caught;
  Ctx ctx;

  FailingRun(std::shared_ptr<CaughtSignals> signals, Ctx const& context) : caught(std::move(signals)), ctx(context) {}
  FailingRun(FailingRun const&) = delete;
  ~FailingRun() {
    int const came = caught ? CaughtSignals::gravest() : 0;
    if (came == 0) return;
    try {
      ctx.warn_each("fulgurite.run.failing",
                    "signal " + std::to_string(came) +
                        " came while the run was ending by an exception: its files are written, and it ends by that "
                        "exception; no job is put back into SLURM's queue, since it would fail again");
    } catch (...) {}  // a warning that cannot be given
  }
};

}  // namespace fulgurite
