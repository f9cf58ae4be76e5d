#pragma once
// Steps of the real trainer, tried out and put back.

#include <utility>

#include <fulgurite/loop/trainer.hpp>

namespace fulgurite::tune {

/// Runs `plan.steps` optimizer steps of the trainer on the data, a loader or a data module (or the model itself, where
/// it has the loaders), and puts everything back bit for bit: weights, buffers, gradients, what model and data module
/// save in `state(archive)`, optimizers, schedules, counters, logged values, places of loaders, random numbers. Also
/// where a step, the loader or an allocation throws; the exception goes on its way then. Between fits; a callback asks
/// for the same inside of one by `ctx.request_search`.
///
/// The steps are those that a fit would make now: its optimizers made anew (inside of a fit: those at hand), its
/// precision, its windows, its strategy. They end where max_epochs is reached. What was recorded of captured steps is
/// freed. There is no validation and no sanity check; nothing is written, no row, no file, no line.
///
/// The model hears what a fit tells it (setup, on_fit_start, on_train_start, hooks of epochs, batches and steps,
/// on_fit_end, teardown; not on_train_end), and may ask `ctx.rehearsing()`. Callbacks and loggers hear nothing. One
/// that freezes parts of the model has not done so between fits, and one that sets the window has not before the first
/// epoch. Members of the model outside of `state(archive)` stay as the steps leave them; a loader that neither draws
/// from the generators of its library, nor has set_epoch or state(archive), is not put back.
///
/// With `Signals{}` among the callbacks, SIGINT and SIGTERM end it after the batch at hand, all is put back, and
/// Interrupted is thrown.
///   tune::rehearse(trainer, net, loader, {.steps = 20, .after_step = [&](RehearsedStep& step) {
///                                           losses.push_back(step.loss());
///                                         }});
template <class Trainer, class Model, class Data>
void rehearse(Trainer& trainer, Model& model, Data&& data, RehearsalPlan const& plan) {
  trainer.search(model, data, [&](auto& rehearser) { rehearser.rehearse(plan); });
}
/// The model has the loaders itself.
template <class Trainer, class Model>
void rehearse(Trainer& trainer, Model& model, RehearsalPlan const& plan) {
  rehearse(trainer, model, model, plan);
}

}  // namespace fulgurite::tune
