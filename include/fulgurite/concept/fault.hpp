#pragma once
// Everything a trainer, or a call of it, can be refused for. The sentences stand in loop/refusals.hpp.

#include <cstdint>

#include <fulgurite/hook/faults.hpp>

namespace fulgurite {

enum class Fault : std::uint8_t {
  none,
  // make_trainer's arguments, policies
  arguments, strategy, precision, optimization, fp16_needs_gpu, closure_needs_unscaled, capture_needs_stable_gradients, capture_needs_automatic,
  // model
  model_class, model_final, metric_list, metric_twice, training_step, configure_optimizers, optimizer_type, schedule_type, schedule_metric, one_optimizer,
  hidden_manual, hidden_split, hidden_step, hidden_result,
  // callbacks
  callback_class, callback_final, callback_twice, callback_hooks, callback_inert, callback_state, callback_needs_logger, callback_watches,
  metric_undeclared, callback_needs_automatic, callback_needs_one_optimizer, callback_needs_backbone, callback_one_average,
  // hooks: see Verdict::hook
  hook,
  // a call of fit, validate, test or predict
  other_model, unnamed_model, module_final, no_train_loader, module_and_loaders, no_range, unused_validation_step,
  unused_validation_loader, no_evaluation_loader, missing_step, step_batch, step_result, manual_result, predict_result
};

struct Verdict {
  Fault fault = Fault::none;
  HookVerdict hook = {};
  constexpr bool ok() const { return fault == Fault::none; }
};

}  // namespace fulgurite
