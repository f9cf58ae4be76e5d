#pragma once
// The sentences for wrong uses of members of a context, an optimizer's handle, a limit or the trainer: each sentence
// once. The member itself has the static_assert. A row of rules (rule.hpp) would be one call further from the program,
// and compilers print every call in between. This header includes nothing, so that every other header may include it.

// Metrics: ctx.log, log_dynamic, update, value.
#define FULGURITE_SENTENCE_METRIC_DYNAMIC_VALUE                                                                        \
  "[fulgurite.metric.dynamic_value] ctx.log_dynamic takes a number, since a tensor would have to be waited for: "      \
  "pass tensor.item<double>(), and do it seldom"
#define FULGURITE_SENTENCE_METRIC_CONSTANT                                                                             \
  "[fulgurite.metric.constant] ctx.log takes a metric of the model, then its value, and no text: declare `static "     \
  "constexpr Metric<\"loss\"> loss{}` and write ctx.log(loss, value)"
#define FULGURITE_SENTENCE_METRIC_UNDECLARED                                                                           \
  "[fulgurite.metric.undeclared] this metric is not in the model's `using Metrics = MetricList<...>`: add it "         \
  "there"
#define FULGURITE_SENTENCE_METRIC_COUNTED                                                                              \
  "[fulgurite.metric.counted] this metric is declared with a definition, which has the formula: "                      \
  "ctx.update(metric, predictions, target) counts a batch for it"
#define FULGURITE_SENTENCE_METRIC_VALUE                                                                                \
  "[fulgurite.metric.value] ctx.log takes a tensor of one element or a number: log its mean(), or the sum()"
#define FULGURITE_SENTENCE_METRIC_LOG_OPTIONS                                                                          \
  "[fulgurite.metric.log_options] how a metric is reported is said where it is declared, `static constexpr "           \
  "Metric<\"loss\"> loss{.prog_bar = true}`: ctx.log takes the metric, its value and {.batch_size = n} alone"
#define FULGURITE_SENTENCE_METRIC_UPDATE_HERE                                                                          \
  "[fulgurite.metric.update_here] ctx.update does not work here: call it in a step, or in a hook of a batch, of "      \
  "training, validation or test"
#define FULGURITE_SENTENCE_METRIC_NO_DEFINITION                                                                        \
  "[fulgurite.metric.no_definition] ctx.update counts for a metric with a definition: declare `static constexpr "      \
  "Metric<\"val/f1\", metric::F1> f1{}`, or ctx.log a value"
#define FULGURITE_SENTENCE_METRIC_SEVERAL                                                                              \
  "[fulgurite.metric.several] this metric's definition computes several numbers, which go to the loggers and "         \
  "results alone: keep a metric::Meter of it in the model, and compute() it"

// Metrics in a captured step.
#define FULGURITE_SENTENCE_CAPTURE_HOST_NUMBER                                                                         \
  "[fulgurite.capture.host_number] a captured step is replayed without running your code, so a number logged in "      \
  "it would never change: log a tensor"
#define FULGURITE_SENTENCE_CAPTURE_HOST_NUMBER_COUNTED                                                                 \
  "[fulgurite.capture.host_number] a captured step is replayed without running your code, so a number that is "        \
  "counted in it would never change: update the metric with tensors"

// Members that only some contexts have.
#define FULGURITE_SENTENCE_CONTEXT_FIXED_WINDOW                                                                        \
  "[fulgurite.context.fixed_window] this strategy keeps one accumulation window for a whole fit: use "                 \
  "Automatic{.accumulate_grad_batches = k}"
#define FULGURITE_SENTENCE_CONTEXT_NO_LOG                                                                              \
  "[fulgurite.context.no_log] ctx.log does not work here: log in a step, or in a hook of training, validation or "     \
  "test"
#define FULGURITE_SENTENCE_CONTEXT_BACKWARD_LOSS                                                                       \
  "[fulgurite.context.backward_loss] ctx.backward and ctx.minimize take the loss, which is a tensor: pass the one "    \
  "that the model computed"
#define FULGURITE_SENTENCE_CONTEXT_MINIMIZE_ORDER                                                                      \
  "[fulgurite.context.minimize_order] ctx.minimize takes the optimizer, then the loss: write "                         \
  "ctx.minimize(optimizer, loss)"
#define FULGURITE_SENTENCE_CONTEXT_MANUAL_BACKWARD                                                                     \
  "[fulgurite.context.manual_backward] Lightning's manual_backward is called backward here: write "                    \
  "ctx.backward(loss) in a manual training_step"
#define FULGURITE_SENTENCE_CONTEXT_NOT_ONE_OPTIMIZER                                                                   \
  "[fulgurite.context.all_optimizers] under Manual, the optimizers are a tuple, also when there is only one: write "   \
  "`auto& [optimizer] = ctx.optimizers()`, and use that"
#define FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS                                                                      \
  "[fulgurite.context.all_optimizers] under Manual, the optimizers are a tuple, also when there is only one: write "   \
  "`auto& [optimizer] = ctx.optimizers()`, then optimizer.zero_grad(), ctx.backward(loss), ctx.step(optimizer)"
#define FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY(NAME, CURE)                                                             \
  "[fulgurite.context.manual_only] only a manual training_step has ctx." NAME ": " CURE

// Optimizers on their way into configure_optimizers' result.
#define FULGURITE_SENTENCE_OPTIMIZER_COPIED                                                                            \
  "[fulgurite.optimizer.copied] scheduled() and optimizers() take optimizers over, and one that was passed by its "    \
  "name cannot be copied: write std::move(optimizer)"

// Optimizers in a manual step.
#define FULGURITE_SENTENCE_OPTIMIZER_RAW_STEP                                                                          \
  "[fulgurite.optimizer.raw_step] optimizer.step() would go past the precision, the hooks and the count of "           \
  "steps: call ctx.step(optimizer), or ctx.minimize(optimizer, loss)"
#define FULGURITE_SENTENCE_OPTIMIZER_CLOSURE                                                                           \
  "[fulgurite.optimizer.closure] this optimizer evaluates the loss several times a step: call "                        \
  "ctx.step(optimizer, closure)"

// Counts and parts.
#define FULGURITE_SENTENCE_OPTIONS_LIMIT_TRUTH                                                                         \
  "[fulgurite.options.limit_truth] a limit is a count or a part, not yes or no: write Batches{1}, or leave it "        \
  "out for all batches"
#define FULGURITE_SENTENCE_OPTIONS_PLAIN_FRACTION                                                                      \
  "[fulgurite.options.plain_fraction] a number with a decimal point could mean a count or a part: write "              \
  "Batches{10} or Fraction{0.5}"

// The trainer.
#define FULGURITE_SENTENCE_OPEN_TEMPORARY                                                                              \
  "[fulgurite.trainer.open_temporary] an open fit refers to its model and its data until it is closed: keep them in "  \
  "variables that outlive it, and pass these to open"
#define FULGURITE_SENTENCE_TRAINER_MOVE                                                                                \
  "[fulgurite.trainer.move] a trainer stays where it was made, since its callbacks and runs refer to it: return "      \
  "make_trainer<Net>(...) itself, or keep `new auto(make_trainer<Net>(...))` in a std::unique_ptr"
#define FULGURITE_SENTENCE_TRAINER_TEXT                                                                                \
  "[fulgurite.trainer.text] a file to resume from is CkptPath{\"last\"}, the last argument: a text is no data, and "   \
  "a loader is a range of batches"
#define FULGURITE_SENTENCE_TRAINER_CKPT_PATH                                                                           \
  "[fulgurite.trainer.ckpt_path] the file to resume from is the last argument of a call, and no option: write "        \
  "trainer.fit(model, data, CkptPath{\"last\"})"
#define FULGURITE_SENTENCE_TRAINER_CALLBACK                                                                            \
  "[fulgurite.trainer.callback] this trainer has no callback of that type: name one of those given to "                \
  "make_trainer"
#define FULGURITE_SENTENCE_TRAINER_CALLBACK_OF_TEMPLATE                                                                \
  "[fulgurite.trainer.callback] this trainer has none, or several, of these callbacks: name the type of the one "      \
  "that is meant"
