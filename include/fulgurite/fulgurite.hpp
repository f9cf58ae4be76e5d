#pragma once
// Everything, for programs; never included by a header of ours. Without LibTorch on the include path: everything above it.
// Left out: data/stride.hpp, whose range-v3 would cost every program half a second.

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/fixed_string.hpp>
#include <fulgurite/core/flow.hpp>
#include <fulgurite/core/known.hpp>
#include <fulgurite/core/slots.hpp>
#include <fulgurite/core/state.hpp>

#include <fulgurite/hook/call.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/near_miss.hpp>
#include <fulgurite/hook/pack.hpp>

#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/cell.hpp>
#include <fulgurite/metric/metric.hpp>

#include <fulgurite/policy/device.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/policy/precision.hpp>

#include <fulgurite/concept/callback.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/concept/fault.hpp>
#include <fulgurite/concept/logger.hpp>
#include <fulgurite/concept/model.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/concept/policy.hpp>
#include <fulgurite/concept/verdict.hpp>

#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/estimate.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/judge.hpp>
#include <fulgurite/loop/judge_call.hpp>
#include <fulgurite/loop/limits.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/not_here.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/loop/progress.hpp>
#include <fulgurite/loop/refusals.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/train_epoch.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/loop/transfer.hpp>
#include <fulgurite/loop/validation_timing.hpp>

#include <fulgurite/schedule/decay.hpp>
#include <fulgurite/schedule/schedule.hpp>
#include <fulgurite/schedule/warmup.hpp>

#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/dataset.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/glyphs.hpp>
#include <fulgurite/data/gzip.hpp>
#include <fulgurite/data/idx.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/position.hpp>
#include <fulgurite/data/random.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/data/stream.hpp>
#include <fulgurite/data/strokes.hpp>
#include <fulgurite/data/team.hpp>
#include <fulgurite/data/vocabulary.hpp>

#include <fulgurite/report/model_table.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/outcome_line.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/progress_meter.hpp>
#include <fulgurite/report/status_lines.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/report/text_table.hpp>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/archive_values.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/checkpoint/safetensors_layout.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/checkpoint/safetensors_writer.hpp>
#include <fulgurite/checkpoint/state_loader.hpp>
#include <fulgurite/checkpoint/state_saver.hpp>
#include <fulgurite/checkpoint/weight_view.hpp>

#include <fulgurite/callback/checkpoint_folder.hpp>
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/file_name.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/callback/top_k.hpp>
#include <fulgurite/callback/watch.hpp>

#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/logger/csv_table.hpp>
#include <fulgurite/logger/hparams.hpp>
#include <fulgurite/logger/version_folder.hpp>

#if __has_include(<ATen/core/Tensor.h>)
#include <torch/nn.h>
#include <torch/optim.h>

#include <fulgurite/torch/aggregate.hpp>
#include <fulgurite/torch/autocast.hpp>
#include <fulgurite/torch/backend.hpp>
#include <fulgurite/torch/batch.hpp>
#include <fulgurite/torch/block_loader.hpp>
#include <fulgurite/torch/buffers.hpp>
#include <fulgurite/torch/checkpoint_file.hpp>
#include <fulgurite/torch/clip.hpp>
#include <fulgurite/torch/digits.hpp>
#include <fulgurite/torch/dtype.hpp>
#include <fulgurite/torch/mnist.hpp>
#include <fulgurite/torch/modes.hpp>
#include <fulgurite/torch/move.hpp>
#include <fulgurite/torch/optimizer.hpp>
#include <fulgurite/torch/relocate.hpp>
#include <fulgurite/torch/rng.hpp>
#include <fulgurite/torch/scaler.hpp>
#include <fulgurite/torch/single_device.hpp>
#include <fulgurite/torch/stack.hpp>
#include <fulgurite/torch/summary.hpp>
#include <fulgurite/torch/tensor_loader.hpp>
#include <fulgurite/torch/tensor_module.hpp>
#include <fulgurite/torch/text.hpp>
#include <fulgurite/torch/toggle.hpp>
#include <fulgurite/torch/torch_loader.hpp>
#include <fulgurite/torch/type_name.hpp>
#include <fulgurite/torch/value.hpp>
#include <fulgurite/torch/walk.hpp>
#include <fulgurite/torch/weights.hpp>
#endif
