#pragma once
// What a trainer owns between its calls: options, policies, callbacks, counters; and what may be asked of them.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/special_run.hpp>

namespace fulgurite::loop {

/// `R` is the key of its runs, `P` the pack of its callbacks.
template <class R, class P>
class OwnedRun {
 public:
  /// A metric's value of the last finished epoch or evaluation.
  template <class Metric>
  std::optional<double> value(Metric const& metric) {
    state_.facts.validating = false;
    return Context<R, phase::Validate>(state_).value(metric);
  }

  /// Where the run is or was: epochs, batches and steps, counted. Kept from fit to fit as a file would keep it.
  Progress const& progress() const { return state_.progress; }
  /// What was said once on stderr, each with its identifier.
  std::vector<std::string> const& warnings() const { return state_.said.all(); }
  /// What the last run came to: the best file and its score, and the like.
  Outcome const& outcome() const { return state_.made.outcome; }
  /// That the runs go by: fast_dev_run, overfit_batches and barebones have replaced some.
  TrainerOptions const& options() const { return state_.asked.options; }
  /// As they were given.
  TrainerOptions const& given_options() const { return state_.asked.given; }
  /// Automatic or manual optimization as make_trainer, or set_optimization, was told.
  typename R::Optimization const& optimization() const { return state_.asked.optimization; }
  /// The device or the strategy of several processes that make_trainer was given.
  typename R::Strategy const& strategy() const { return state_.parts.strategy; }

 protected:
  OwnedRun(TrainerOptions options, typename R::Strategy strategy, typename R::Precision precision,
           typename R::Optimization optimization, P pack)
      : state_{.asked = {.options = effective(options),
                         .given = std::move(options),
                         .optimization = std::move(optimization),
                         .logs = has_logger<P>},
               .parts = {.strategy = std::move(strategy), .precision = std::move(precision)}},
        pack_(std::move(pack)) {}

  State<R> state_;
  P pack_;
  NoModule none_{};
};

}  // namespace fulgurite::loop
