#pragma once
// The names under which metrics are reported: per step, per epoch, per loader.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::action {

// The actions of the loops, under the names that Lightning's profilers give them.

using run_training_epoch = Plain<"run_training_epoch", RunPart::loop>;
using run_training_batch = Plain<"run_training_batch", RunPart::loop>;
/// Ours: Lightning has no name for a whole validation inside a fit.
using run_validation = Plain<"run_validation", RunPart::loop>;
using train_next = Plain<"[_TrainingEpochLoop].train_dataloader_next", RunPart::data>;
using save_checkpoint = Plain<"save_checkpoint", RunPart::saving>;

/// The same of a loader of validation_step, test_step, predict_step.
template <class Step>
struct EvaluationNext {
  static constexpr RunPart part = RunPart::data;
  static std::string name() {
    if constexpr (std::is_same_v<Step, hook::validation_step>) return "[_EvaluationLoop].val_next";
    else if constexpr (std::is_same_v<Step, hook::test_step>) return "[_EvaluationLoop].test_next";
    else return "[_PredictionLoop].predict_next";
  }
};

template <class R>
using batch_to_device = Of<"Strategy", typename R::Strategy, "batch_to_device", RunPart::transfer>;
template <class R>
using training_step = Of<"Strategy", typename R::Strategy, "training_step", RunPart::step>;
template <class R>
using backward = Of<"Strategy", typename R::Strategy, "backward", RunPart::backward>;
/// Of several ranks: their gradients become one.
template <class R>
using exchange = Of<"Strategy", typename R::Strategy, "reduce_gradients", RunPart::exchange>;
template <class R, class Step>
using evaluation_step = HookOf<"Strategy", typename R::Strategy, Step, RunPart::evaluation>;

/// The update alone. Lightning's time of that name has the closure in it as well, training_step and backward.
template <class R>
using optimizer_step = HookOf<"LightningModule", typename R::Model, hook::optimizer_step, RunPart::update>;
template <class R>
using zero_grad = HookOf<"LightningModule", typename R::Model, hook::optimizer_zero_grad, RunPart::update>;
/// Clipping, and the look at gradients that it takes along.
template <class R>
using clipping = HookOf<"LightningModule", typename R::Model, hook::configure_gradient_clipping, RunPart::update>;

}  // namespace fulgurite::action

namespace fulgurite {

/// One finished value of an evaluation, under its reported name.
struct MetricValue {
  std::string name;
  double value;
};

namespace loop {

/// `loss`, or `loss_step` and `loss_epoch` where a metric is reported both ways.
std::string reported_name(DeclaredMetric const& metric, Origin origin, bool epoch);

/// Whether some metric is reported per step where it is logged there.
template <class Metrics>
consteval bool any_per_step(Origin origin) {
  bool any = false;
  for (auto const& metric : declared_metrics<Metrics>) any = any || per_step(metric, origin);
  return any;
}

/// The value of each metric of a board that is reported per epoch.
std::vector<MetricValue> epoch_row(RunCore& run, BoardNumber board);

/// The latest value of each metric of a board that is reported per step and was logged since the last such row.
std::vector<MetricValue> step_row(RunCore& run, BoardNumber board);

/// Hands rows that waited for a check of their steps to the loggers.
void deliver_held(RunCore& run);

/// Hands a row to the loggers among the callbacks: those that have `log_metrics`.
void log_row(RunCore& run, std::vector<MetricValue> const& values, long step, bool with_epoch = true);

/// Some callback is a logger, so rows are worth making.
template <class Pack>
inline constexpr bool has_logger = false;
template <class... Cs>
inline constexpr bool has_logger<Pack<Cs...>> = (hook::log_metrics::named<Cs> || ...);

/// The x axis of what belongs to a whole epoch, or to the end of training: the last step's.
long last_step(RunCore const& run);

/// Hands what callbacks posted to the loggers.
void log_posted(RunCore& run, long step);

/// Rows that callbacks posted go to the loggers at `step`, once the event at hand has been heard by all.
template <class R, class Pack>
[[gnu::always_inline]] inline void deliver_posted(State<R>& run, Pack&, long step) {
  if constexpr (has_logger<Pack>)
    if (!run.due.posted.empty()) [[unlikely]]
      log_posted(run, step);
}

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

// Options that stand for several others: fast_dev_run, overfit_batches, barebones. What they replace, and what they
// silence, is said.

/// fast_dev_run = n: one epoch of n batches, as many of validation, test and predict, no sanity check. A batch may take
/// several steps, and validation comes all the same, so no limit of steps is below that of batches.
void apply_dev_run(TrainerOptions& o);

/// The options that the run goes by, of options that were checked.
TrainerOptions effective(TrainerOptions given);

/// Before anything starts: barebones has no callback that reports, but for those that make_trainer has added, which are
/// idle then; a fast_dev_run says what it replaces and who is idle.
void check_special(RunCore& run);

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/names.ipp>
#endif
