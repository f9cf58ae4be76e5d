#pragma once
// Searches: what callbacks want tried out before training goes on.

#include <functional>
#include <vector>

#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/loop/run_key.hpp>

namespace fulgurite {

class BatchSizes;

/// What a search is given: the run at a place between two epochs, where steps can be tried out.
template <class R>
class Rehearser {
 public:
  virtual ~Rehearser() = default;
  /// Runs steps of the real trainer, and puts everything back; see tune::rehearse.
  virtual void rehearse(RehearsalPlan const& plan) = 0;
  /// Those of the run, to be set for what follows the search.
  virtual LearningRates& rates() = 0;
  virtual Context<R, phase::Fit> context() = 0;
  virtual BatchSizes& batch_sizes() = 0;
};

/// What a callback gives to ctx.request_search: called at the next place where steps can be tried out.
template <class R>
using RunSearch = std::function<void(Rehearser<R>&)>;

namespace loop {

/// Part of a run's state: searches that were asked for and have yet to be done.
template <class R>
struct Searching {
  bool answers = false;        ///< the fit at hand has a callback that says `searches`
  bool alone = false;          ///< the run is there for its search, and ends then
  bool rehearsing = false;     ///< steps are tried out: nothing of them is written
  bool sizes_changed = false;  ///< a search has set another batch size: the fit asks for its loaders anew
  std::vector<RunSearch<R>> due{};
  std::vector<RunSearch<R>> settings{};  ///< to be done before loaders are asked for
};

}  // namespace loop
}  // namespace fulgurite
