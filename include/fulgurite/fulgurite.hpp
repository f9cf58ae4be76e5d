#pragma once
// Everything, for programs; never included by a header of ours. Without LibTorch on the include path: everything above
// it. Left out: data/stride.hpp, whose range-v3 would cost every program half a second; distributed/, whose process
// groups cost several, as the tracer of torch/export/ does; report/reflected.hpp, which needs Boost.Hana; and cli.hpp,
// whose libraries need not be there. tests/layout/umbrella.py compares.

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/core/version.hpp>

#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/near_miss_names.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/hook/policy_hooks.hpp>

#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/formulas.hpp>
#include <fulgurite/metric/meter.hpp>
#include <fulgurite/metric/metric.hpp>

#include <fulgurite/policy/policies.hpp>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>

#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/call_stages.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/data_rules.hpp>
#include <fulgurite/diagnose/hook_refusals.hpp>
#include <fulgurite/diagnose/near_miss_refusals.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/diagnose/trainer_rules.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/between_runs.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/safe_points.hpp>
#include <fulgurite/loop/train_epoch.hpp>
#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/batch_size_finder.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <fulgurite/schedule/schedule.hpp>

#include <fulgurite/data/batch_queue.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/image_folder.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/pipeline.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/shared.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/data/team.hpp>

#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/describer.hpp>
#include <fulgurite/report/html.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/run_folder.hpp>
#include <fulgurite/report/terminal.hpp>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>
#include <fulgurite/callback/kept_files.hpp>
#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/model_pruning.hpp>
#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/callback/pruning_masks.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/simple_profiler.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/throughput_monitor.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/callback/weight_averaging.hpp>

#include <fulgurite/logger/console_logger.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/mlflow_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>

#include <fulgurite/defaults/callbacks.hpp>

#include <fulgurite/tuner/race.hpp>
#include <fulgurite/tuner/space.hpp>
#include <fulgurite/tuner/sweep.hpp>

#if __has_include(<ATen/core/Tensor.h>)
#include <torch/nn.h>
#include <torch/optim.h>

#include <fulgurite/defaults.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/capture/fastest.hpp>
#include <fulgurite/torch/chain/chain.hpp>
#include <fulgurite/torch/data/image_folder.hpp>
#include <fulgurite/torch/data/mnist.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/table.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/data/text.hpp>
#include <fulgurite/torch/data/torch_loader.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/modules.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/metric/meter.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/clip.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/lbfgs.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>
#include <fulgurite/torch/profile/advanced_profiler.hpp>
#include <fulgurite/torch/profile/nvtx_profiler.hpp>
#include <fulgurite/torch/weights/averaging.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>
#include <fulgurite/torch/weights/summary.hpp>
#include <fulgurite/torch/weights/weights.hpp>
#endif

#if defined(FULGURITE_IMPLEMENTATION)
#include <fulgurite/bodies.hpp>
#endif
