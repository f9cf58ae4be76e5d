#pragma once
// What a run counts, knows and owes, kept while something is tried out.

#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Options, counters, facts, rows and requests that wait, logged values, clocks: all of a run's state but its parts and
/// what it has said. What a rank knows of a failure, its own or that of all ranks, is not restored: it is still true.
template <class R>
class KeptPlace {
 public:
  explicit KeptPlace(State<R> const& run)
      : asked_(run.asked),
        progress_(run.progress),
        point_(run.point),
        facts_(run.facts),
        carried_(run.carried),
        watch_(run.watch),
        due_(run.due),
        measured_(run.measured),
        loading_(run.loading),
        clock_(run.clock),
        shared_(run.shared),
        made_(run.made) {}

  void put_back(State<R>& run) const {
    run.asked = asked_;
    run.progress = progress_;
    run.point = point_;
    run.facts = facts_;
    run.carried = carried_;
    run.watch = watch_;
    run.due = due_;
    run.measured = measured_;
    run.loading = loading_;
    run.clock = clock_;
    if constexpr (shares<R>) {
      bool const together = run.shared.together, alone = run.shared.alone;
      run.shared = shared_;
      run.shared.together = together, run.shared.alone = alone;
    }
    run.made = made_;
  }
  Progress const& progress() const { return progress_; }

 private:
  Asked<R> asked_;
  Progress progress_;
  SafePoint point_;
  Facts facts_;
  Carried<R> carried_;
  Watch<R> watch_;
  Due due_;
  Measured<R> measured_;
  Loading loading_;
  RunClock clock_;
  [[no_unique_address]] SharedOf<R> shared_;
  Made made_;
};

}  // namespace fulgurite::loop
