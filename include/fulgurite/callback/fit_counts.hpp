#pragma once
// What a bar or a dashboard has seen of a fit, for the line that is left of it.

#include <string>

#include <fulgurite/report/outcome_line.hpp>

namespace fulgurite {

/// Where a fit began in this process: of a run that goes on, not at its first epoch.
class FitCounts {
 public:
  void begin(auto& ctx) {
    began_ = ctx.seconds_now();
    go_on(ctx);
  }
  /// Training starts: of a run that goes on its place is known now.
  void go_on(auto& ctx) {
    epoch_ = ctx.current_epoch();
    step_ = ctx.global_step();
  }
  /// Since the fit began.
  double seconds(double now) const { return now - began_; }
  /// Epochs, steps and time of this process, and what came out of the fit.
  std::string line(auto& ctx) const {
    return report::outcome_line(ctx.outcome(), ctx.current_epoch() - epoch_, ctx.global_step() - step_,
                                seconds(ctx.seconds_now())) +
           "\n";
  }

 private:
  double began_ = 0;
  int epoch_ = 0;
  long step_ = 0;
};

}  // namespace fulgurite
