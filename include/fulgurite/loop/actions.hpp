#pragma once
// The actions of the loops, under the names that Lightning's profilers give them.

#include <string>
#include <type_traits>

#include <fulgurite/core/action.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/profiled.hpp>

namespace fulgurite::action {

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

template <class L>
using log_metrics = HookOf<"Logger", L, hook::log_metrics, RunPart::logging>;

}  // namespace fulgurite::action
