#pragma once
// Everything a trainer can be told, with Lightning's names. What it must fulfil: checked_options.hpp.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/root_folder.hpp>
#include <fulgurite/loop/elsewhere.hpp>
#include <fulgurite/loop/limits.hpp>
#include <fulgurite/loop/silence.hpp>

namespace fulgurite {

/// What a loss or a gradient does that is infinite or not a number. On the CPU it is found before the update. Buffers,
/// such as the statistics of a batch norm, are written while the loss is computed: a bad batch may spoil them, and they
/// are not put back (what is said names one).
///
/// The gradients of a scaled loss (Fp16Mixed) are its scaler's, which leaves updates out until they are finite. One
/// that has left out 100 in a row, or whose scale is too small for a float, ends the fit under `stop`, and is warned of
/// otherwise.
enum class NonFinite : std::uint8_t {
  stop,   ///< an Error; the weights stay those of the last good step. On a GPU found at the cadence of the logs
  skip,   ///< the update of its accumulation window is left out, and counted; on a GPU the host waits once a step
  ignore  ///< nothing: it is not looked for
};

/// An aggregate: `TrainerOptions{.max_epochs = 10, .limit_val_batches = Fraction{0.5}}`.
struct TrainerOptions {
  using Clock = std::chrono::steady_clock;

  std::optional<int> max_epochs =
      std::nullopt;  ///< -1: no limit. Not given: no limit if max_steps or max_time is, else refused
  std::optional<int> min_epochs = std::nullopt;  ///< honoured against early stopping
  std::optional<long> max_steps = std::nullopt;  ///< optimizer steps, over all optimizers in manual mode; -1: no limit
  std::optional<long> min_steps = std::nullopt;  ///< optimizer steps before a request to stop, or max_time, counts
  std::optional<TimeSpan> max_time = std::nullopt;  ///< of training, such as "00:12:00:00"; minima win over it
  /// How much of each training epoch is taken: a count, or a Fraction of the loader; 0 trains nothing.
  Limit limit_train_batches = {};
  Limit limit_val_batches = {};      ///< the same of each validation loader; 0: no validation
  Limit limit_test_batches = {};     ///< of each test loader
  Limit limit_predict_batches = {};  ///< of each loader that is predicted on
  /// Validate so often inside an epoch: after so many batches, after each Fraction of it, or after so much time.
  /// Default: at its end.
  ValidationInterval val_check_interval = {};
  std::optional<int> check_val_every_n_epoch = 1;  ///< nullopt: val_check_interval counts batches across epochs
  int num_sanity_val_steps = 2;                    ///< validation batches tried before training; -1: all
  int log_every_n_steps = 50;                      ///< 0: never
  int fast_dev_run = 0;  ///< n: n batches of every loop, once, to see that all of it runs; see special_run.hpp
  std::optional<Limit> overfit_batches =
      std::nullopt;                           ///< the same first batches in every epoch, of training and of validation
  int reload_dataloaders_every_n_epochs = 0;  ///< loaders are asked for again after so many epochs; 0: never
  bool use_distributed_sampler = true;     ///< several processes: each gets its part of a loader; false: loaders stay
  bool inference_mode = true;              ///< validate, test and predict; validation inside fit uses no_grad
  NonFinite non_finite = NonFinite::stop;  ///< losses and gradients of a fit
  // Switches of the whole process: trainers that run at the same time share them, and contradictory wishes are refused.
  bool detect_anomaly = false;                   ///< backward throws where a function returns a nan, and names it; slow
  bool deterministic = false;                    ///< only algorithms that give the same bits each time; others throw
  std::optional<bool> benchmark = std::nullopt;  ///< cuDNN tries its algorithms and takes the fastest
  bool barebones = false;  ///< nothing is logged, shown, tried or saved: for measuring the loop alone
  RootFolder default_root_dir =
      {};                           ///< where logs and checkpoints go that are told no folder; default: the current one
  bool save_in_background = false;  ///< ModelCheckpoint's files are written by a thread of its own, from a copy
  Silence silence = {};             ///< warnings that are not printed, by their identifiers
  Clock::time_point (*now)() = &Clock::now;  ///< replaced in tests

  // Refused: options of Lightning's Trainer that are written elsewhere, by elsewhere.hpp. They stand last, so that a
  // compiler prints their sentence first, in whatever order a program has them.
  [[no_unique_address]] elsewhere::Strategy<0> accelerator =
      elsewhere::unset;  ///< SingleDevice{cuda(0)}, DistributedDataParallel{...}
  [[no_unique_address]] elsewhere::Strategy<1> devices = elsewhere::unset;         ///< likewise
  [[no_unique_address]] elsewhere::Strategy<2> strategy = elsewhere::unset;        ///< likewise
  [[no_unique_address]] elsewhere::Strategy<3> num_nodes = elsewhere::unset;       ///< likewise
  [[no_unique_address]] elsewhere::Strategy<4> sync_batchnorm = elsewhere::unset;  ///< likewise
  [[no_unique_address]] elsewhere::Precision precision = elsewhere::unset;         ///< Bf16Mixed{}, Fp16Mixed{}
  [[no_unique_address]] elsewhere::Optimization<0> accumulate_grad_batches = elsewhere::unset;  ///< Automatic{...}
  [[no_unique_address]] elsewhere::Optimization<1> gradient_clip_val = elsewhere::unset;        ///< likewise
  [[no_unique_address]] elsewhere::Optimization<2> gradient_clip_algorithm = elsewhere::unset;  ///< likewise
  [[no_unique_address]] elsewhere::Callbacks<0> callbacks = elsewhere::unset;  ///< arguments of make_trainer
  [[no_unique_address]] elsewhere::Callbacks<1> logger = elsewhere::unset;     ///< likewise
  [[no_unique_address]] elsewhere::Callbacks<2> profiler = elsewhere::unset;   ///< likewise
  [[no_unique_address]] elsewhere::LeftOut<0> enable_progress_bar =
      elsewhere::unset;  ///< NoProgressBar{}, NoCheckpoints{}, NoModelSummary{}
  [[no_unique_address]] elsewhere::LeftOut<1> enable_checkpointing = elsewhere::unset;  ///< likewise
  [[no_unique_address]] elsewhere::LeftOut<2> enable_model_summary = elsewhere::unset;  ///< likewise
  [[no_unique_address]] elsewhere::Call<0> ckpt_path = elsewhere::unset;  ///< CkptPath{...}, the last argument of fit
  [[no_unique_address]] elsewhere::Call<1> resume_from_checkpoint = elsewhere::unset;  ///< likewise
};

namespace loop {

[[noreturn]] inline void refuse_option(char const* identifier, std::string const& name, auto value,
                                       std::string const& cure) {
  throw Error(identifier, name + " = " + std::to_string(value) + ": " + cure);
}

}  // namespace loop
}  // namespace fulgurite
