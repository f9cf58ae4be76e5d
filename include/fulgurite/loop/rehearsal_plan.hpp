#pragma once
// What is tried out in a rehearsal, and what may be done at each of its steps.

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// What a rehearsal finds out about the loader that it reads.
struct LoaderFacts {
  std::optional<long> batches = std::nullopt;  ///< of an epoch
  std::optional<long> samples = std::nullopt;  ///< where the loader has `layout()` or `samples()` that says it
};

/// The learning rates of a run: those of all groups of its first optimizer, then of the second one. Error
/// [fulgurite.tuner.rates] where more or fewer are given than it has.
class LearningRates {
 public:
  virtual ~LearningRates() = default;
  virtual std::vector<double> now() const = 0;
  /// That schedules start from: what configure_optimizers gave.
  virtual std::vector<double> initial() const = 0;
  /// Until a schedule moves them.
  virtual void set(std::span<double const> rates) = 0;
  /// From which schedules start from now on. What a schedule makes of them at its present place is set at once.
  virtual void begin_from(std::span<double const> rates) = 0;
};

/// One optimizer step of a rehearsal, as the functions of its plan see it.
class RehearsedStep {
 public:
  RehearsedStep(LearningRates& rates, long number) : rates_(rates), number_(number) {}

  /// Counted from 0. A captured step that was replayed wrongly is made again, and so its number may come again.
  long number() const { return number_; }
  /// After the step: how many the rehearsal has made. More than `number() + 1` where a batch is cut into slices, each
  /// with a step of its own: all of them are one step to a plan.
  long made() const { return made_; }
  /// The place of the batch at hand in its pass over the data, from 0.
  long batch_idx() const { return batch_idx_; }
  /// Rows of the batch at hand.
  long batch_size() const { return batch_size_; }
  /// After the step: what training_step returned for the batch that closed its window. Reads the device. NaN where it
  /// returned none, and under manual optimization.
  double loss() const { return loss_ ? loss_() : std::numeric_limits<double>::quiet_NaN(); }
  bool has_loss() const { return loss_ != nullptr; }
  LearningRates& rates() const { return rates_; }
  /// No other step follows this one. Before a step: it is the last one.
  void stop() { stops_ = true; }

  bool stops() const { return stops_; }
  void set_batch(long place, long size, std::function<double()> loss) {
    batch_idx_ = place;
    batch_size_ = size;
    loss_ = std::move(loss);
  }
  void set_made(long steps) { made_ = steps; }

 private:
  LearningRates& rates_;
  long number_;
  long made_ = 0;
  long batch_idx_ = 0;
  long batch_size_ = 0;
  std::function<double()> loss_ = nullptr;
  bool stops_ = false;
};

/// An aggregate: `RehearsalPlan{.steps = 100, .after_step = [&](RehearsedStep& step) { ... }}`.
struct RehearsalPlan {
  long steps = 1;  ///< at most: the data and max_epochs may end it before, and either function
  /// Schedules move as in a fit. Otherwise the rates stay where `before_step` puts them.
  bool schedules = false;
  /// The data are asked for their loader anew, which may be another one by now: one of other batches.
  bool fresh_loader = false;
  /// Changes the trainer's options while it lasts.
  std::function<void(TrainerOptions&)> options = nullptr;
  /// When the loader is at hand, before any step.
  std::function<void(LoaderFacts const&)> on_loader = nullptr;
  /// In place of the trainer's own option.
  std::optional<NonFinite> non_finite = std::nullopt;
  /// When the first batch of a step is at hand.
  std::function<void(RehearsedStep&)> before_step = nullptr;
  /// When the step is made.
  std::function<void(RehearsedStep&)> after_step = nullptr;
};

}  // namespace fulgurite
