#pragma once
// What a run counts, knows and owes, kept while something is tried out.

#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Options, counters, facts, rows and requests that wait, logged values, clocks: all of a run's state but its parts and
/// what it has said.
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
  Made made_;
};

}  // namespace fulgurite::loop
