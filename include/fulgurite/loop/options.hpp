#pragma once
// The trainer's options, with Lightning's names. The rules that they must meet are in diagnose/option_rules.hpp.

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::elsewhere {

// Options of Lightning's Trainer, and words of others, that are no TrainerOptions here. Naming one does not compile.

enum class Place : std::uint8_t { strategy, precision, optimization, callbacks, left_out, call, length };

/// The initial value of such a member if a program does not name it.
struct Unset {};
inline constexpr Unset unset{};

/// The type of such a member. It accepts any value, so that a static_assert can refuse it. `Which` makes each member's
/// type distinct, so that [[no_unique_address]] leaves them all without storage.
template <Place place, int Which>
struct Option {
  [[gnu::always_inline]] constexpr Option(Unset) {}
  template <Place written = place, class... Values>
  constexpr Option(Values const&...) {
    constexpr bool no_strategy = written != Place::strategy, no_precision = written != Place::precision,
                   no_optimization = written != Place::optimization, no_callback = written != Place::callbacks,
                   no_default = written != Place::left_out, no_file = written != Place::call,
                   no_length = written != Place::length;
    static_assert(no_strategy, "[fulgurite.options.strategy] devices and processes are an argument beside the options: "
                               "write make_trainer<Net>(TrainerOptions{...}, SingleDevice{cuda(0)}), or "
                               "DistributedDataParallel{.devices = 2}");
    static_assert(no_precision, "[fulgurite.options.precision] the precision is an argument beside the options: write "
                                "make_trainer<Net>(TrainerOptions{...}, Bf16Mixed{}), or Fp16Mixed{}");
    static_assert(no_optimization, "[fulgurite.options.optimization] accumulation and clipping are an argument beside "
                                   "the options: write make_trainer<Net>(TrainerOptions{...}, "
                                   "Automatic{.accumulate_grad_batches = 4, .clip = ClipNorm{1.0}})");
    static_assert(no_callback, "[fulgurite.options.callbacks] callbacks, loggers and profilers are arguments beside "
                               "the options: write make_trainer<Net>(TrainerOptions{...}, EarlyStopping{Net::loss}, "
                               "CSVLogger{}, SimpleProfiler{})");
    static_assert(no_default, "[fulgurite.options.left_out] what make_trainer adds is left out by an argument beside "
                              "the options: write make_trainer<Net>(TrainerOptions{...}, NoProgressBar{}), "
                              "NoCheckpoints{} or NoModelSummary{}");
    static_assert(no_file, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    static_assert(no_length, "[fulgurite.options.length] a run's length is .max_epochs, .max_steps or .max_time, "
                             "Lightning's names");
  }
};

template <int Which>
using Strategy = Option<Place::strategy, Which>;
using Precision = Option<Place::precision, 0>;
template <int Which>
using Optimization = Option<Place::optimization, Which>;
template <int Which>
using Callbacks = Option<Place::callbacks, Which>;
template <int Which>
using LeftOut = Option<Place::left_out, Which>;
template <int Which>
using Call = Option<Place::call, Which>;
template <int Which>
using Length = Option<Place::length, Which>;

}  // namespace fulgurite::elsewhere

namespace fulgurite {

/// The trainer's function that is running.
enum class Stage : std::uint8_t { fit, validate, test, predict };

/// The four types that decide everything that a step sees: the key of contexts, which know no callbacks.
template <class M, class S, class P, class O>
struct Run {
  using Model = M;
  using Strategy = S;
  using Precision = P;
  using Optimization = O;
  using Backend = typename S::Backend;
  using Value = typename Backend::Value;
  using Metrics = typename MetricsOf<M>::type;
  static constexpr bool automatic = O::automatic;
};

template <class R, class Phase>
class RunContext;

/// The phases of a run. A phase decides which members a context has.
namespace phase {
/// Before the first and after the last batch of a run: `setup`, `teardown`, `on_fit_*` and `configure_optimizers`. In
/// validate, test and predict these have the phase of their stage.
struct Fit {
  static constexpr bool logs = false, trains = true, evaluates = false;
};
/// Training: steps, and the hooks around batches and epochs.
struct Train {
  static constexpr bool logs = true, trains = true, evaluates = false;
};
/// Validation, inside a fit or by validate().
struct Validate {
  static constexpr bool logs = true, trains = true, evaluates = true;
};
/// The steps and hooks of test().
struct Test {
  static constexpr bool logs = true, trains = false, evaluates = true;
};
/// on_train_end. The rows are already written, so nothing can be logged any more.
struct TrainEnd : Train {
  static constexpr bool logs = false;
};
/// on_validation_end.
struct ValidateEnd : Validate {
  static constexpr bool logs = false;
};
/// on_test_end.
struct TestEnd : Test {
  static constexpr bool logs = false;
};
/// predict(): what a step returns is the result, so nothing is logged.
struct Predict {
  static constexpr bool logs = false, trains = false, evaluates = true;
};
}  // namespace phase

/// A number of batches: `.limit_train_batches = Batches{10}`. A plain integer means the same.
struct Batches {
  long count;
};

/// A fraction of a loader, in [0, 1]: `.val_check_interval = Fraction{0.25}` validates four times in each epoch.
struct Fraction {
  double part;
};

namespace loop {
template <class T>
inline constexpr bool is_plain_fraction = std::floating_point<T>;
/// `true` would mean one batch, but users usually mean all batches by it.
template <class T>
inline constexpr bool is_truth = std::same_as<T, bool>;
template <class T>
consteval void refuse_truth() {
  static_assert(!is_truth<T>, FULGURITE_SENTENCE_OPTIONS_LIMIT_TRUTH);
}
/// 0.5 looks like a fraction and 10.0 like a count; the type alone does not decide.
template <class T>
consteval void refuse_plain_fraction() {
  static_assert(!is_plain_fraction<T>, FULGURITE_SENTENCE_OPTIONS_PLAIN_FRACTION);
}
template <class T>
inline constexpr bool is_text = std::convertible_to<T, std::string_view>;

// Identifiers of warnings: their form, and the list of the library's warnings.

/// Everything that the library warns of, without `fulgurite.` in front.
// clang-format off
inline constexpr auto library_warnings = std::to_array<std::string_view>({
    "callback.checkpoint_folder", "callback.checkpoint_gone", "callback.checkpoint_moved",
    "callback.checkpoint_old_value", "callback.checkpoint_waits", "callback.learning_rate",
    "callback.once_a_window", "callback.patience_spent", "callback.profiler_too_short", "capture.eager",
    "capture.gone_back", "capture.single_steps", "capture.unchecked", "checkpoint.failed_too",
    "checkpoint.forgets_part", "checkpoint.forgets_place", "cli.variable", "data.none", "data.uneven", "data.waits",
    "exception.second", "hook.once_a_window", "logger.new_folder", "logger.rows_dropped", "loop.non_finite_skipped",
    "loop.scaler_skips", "manual.dropped_gradients", "manual.no_gradients", "manual.not_cleared",
    "metric.no_logger", "metric.undefined", "model.unregistered", "options.barebones_log", "options.dev_run",
    "options.few_rows", "options.long_window", "options.overfit_order", "options.save_in_background",
    "precision.default_type", "precision.loss_type", "resume.after_exception", "resume.after_requeue",
    "resume.callback", "resume.damaged",
    "resume.data_state", "resume.finished", "resume.hidden", "resume.no_callback", "resume.no_last",
    "resume.no_state", "resume.options", "resume.passed_over", "resume.skips", "resume.untold", "run.failing",
    "run.requeue", "schedule.metric", "schedule.short", "tuner.no_suggestion", "tuner.not_searched",
    "tuner.unanswered"});
// clang-format on

/// True if the text has at least two words of lower-case letters, digits and underscores, with points between them.
constexpr bool is_identifier(std::string_view text) {
  bool const spelt = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  return spelt && text.find('.') != text.npos && !text.starts_with('.') && !text.ends_with('.') &&
         text.find("..") == text.npos;
}
/// True if the text is an identifier and, if it begins with `fulgurite.`, names a warning of the library.
constexpr bool is_warning(std::string_view identifier) {
  constexpr std::string_view ours = "fulgurite.";
  if (!is_identifier(identifier)) return false;
  return !identifier.starts_with(ours) || std::find(library_warnings.begin(), library_warnings.end(),
                                                    identifier.substr(ours.size())) != library_warnings.end();
}
}  // namespace loop

/// How much of a loader is used: a count of batches, or a fraction. The default is all of it; 0 disables the loop.
struct Limit {
  enum class Kind : std::uint8_t { fraction, batches };
  Kind kind = Kind::fraction;
  long batches = 0;
  double part = 1.0;

  constexpr Limit() = default;
  template <std::integral I>
  constexpr Limit(I count) : Limit(Batches{static_cast<long>(count)}) {
    loop::refuse_truth<I>();
  }
  constexpr Limit(Batches count) : kind(Kind::batches), batches(count.count) {}
  constexpr Limit(Fraction of) : part(of.part) {}
  template <std::floating_point F>
  constexpr Limit(F) {
    loop::refuse_plain_fraction<F>();
  }
  template <std::convertible_to<std::string_view> Text>
  constexpr Limit(Text const&) {
    static_assert(!loop::is_text<Text>, "[fulgurite.options.limit_text] how much of a loader is used is a number, not "
                                        "a text: write 10 for batches, or Fraction{0.5}");
  }

  constexpr bool all() const { return kind == Kind::fraction && part == 1.0; }
  constexpr bool none() const { return kind == Kind::fraction ? part == 0.0 : batches == 0; }
};

/// When validation runs inside an epoch: every N batches, after each fraction of an epoch, or every so much time.
struct ValidationInterval {
  enum class Kind : std::uint8_t { fraction, batches, time };
  Kind kind = Kind::fraction;
  long batches = 0;
  double part = 1.0;
  Seconds time{};

  constexpr ValidationInterval() = default;
  template <std::integral I>
  constexpr ValidationInterval(I count) : ValidationInterval(Batches{static_cast<long>(count)}) {
    loop::refuse_truth<I>();
  }
  constexpr ValidationInterval(Batches count) : kind(Kind::batches), batches(count.count) {}
  constexpr ValidationInterval(Fraction of) : part(of.part) {}
  template <class Rep, class Period>
  constexpr ValidationInterval(std::chrono::duration<Rep, Period> every) : kind(Kind::time), time(every) {}
  /// Days, hours, minutes and seconds: "00:00:15:00".
  template <std::convertible_to<std::string_view> Text>
  constexpr ValidationInterval(Text const& every) : kind(Kind::time), time(time_of(every)) {}
  template <std::floating_point F>
  constexpr ValidationInterval(F) {
    loop::refuse_plain_fraction<F>();
  }

  constexpr bool epoch_end() const { return kind == Kind::fraction && part == 1.0; }
};

/// Warnings that are not printed: `.silence = {"fulgurite.capture.eager"}`. `trainer.warnings()` still returns them.
/// The texts are not copied: pass literals. Throws [fulgurite.options.silence] for an identifier that no warning has.
/// Its functions are templates, since a std::vector of the standard library's debug mode can be no constant.
class Silence {
 public:
  constexpr Silence() = default;
  template <class = void>
  constexpr Silence(std::initializer_list<std::string_view> identifiers)
      : Silence(std::vector<std::string_view>(identifiers)) {}
  template <class = void>
  constexpr explicit Silence(std::vector<std::string_view> identifiers) : identifiers_(std::move(identifiers)) {
    for (auto const identifier : identifiers_)
      if (!loop::is_warning(identifier))
        throw Error("fulgurite.options.silence", std::string(identifier) + " is no warning of the library: write the "
                                                                           "identifier that it has in front");
  }
  template <class = void>
  constexpr bool has(std::string_view identifier) const {
    return std::find(identifiers_.begin(), identifiers_.end(), identifier) != identifiers_.end();
  }
  constexpr std::vector<std::string_view> const& all() const { return identifiers_; }

 private:
  std::vector<std::string_view> identifiers_{};
};

/// What a fit does about a loss or a gradient that is infinite or not a number. On the CPU it is detected before the
/// update. Buffers, such as the statistics of a batch norm, are written while the loss is computed: a bad batch may
/// spoil them, and they are not restored; the message names one.
///
/// With a scaled loss (Fp16Mixed) the scaler handles gradients: it skips updates until they are finite. After 100
/// skipped updates in a row, or when the scale gets too small for a float, the fit ends under `stop`, or else warns.
enum class NonFinite : std::uint8_t {
  stop,   ///< throws an Error; the weights stay those of the last good step. On a GPU: checked every log_every_n_steps
  skip,   ///< skips and counts the update of the accumulation window; on a GPU the host waits once a step
  ignore  ///< does not check
};

/// The options of a trainer. An aggregate: name the ones that differ from the defaults, in this order.
///
///     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10, .limit_val_batches = Fraction{0.5}});
struct TrainerOptions {
  using Clock = std::chrono::steady_clock;

  /// Epochs after which the fit ends; -1: no limit. Not set: no limit if max_steps or max_time is set, else an Error.
  std::optional<int> max_epochs = std::nullopt;
  /// Epochs that are completed before a stop request or max_time takes effect.
  std::optional<int> min_epochs = std::nullopt;
  /// Optimizer steps after which the fit ends, over all optimizers; -1 or not set: no limit.
  std::optional<long> max_steps = std::nullopt;
  std::optional<long> min_steps = std::nullopt;  ///< optimizer steps before a stop request or max_time takes effect
  /// Training time after which the fit ends, such as "00:12:00:00" (days, hours, minutes, seconds).
  TimeSpan max_time = std::nullopt;
  /// How much of each training epoch is used: a count, or a Fraction of the loader. 0 disables training.
  Limit limit_train_batches = {};
  Limit limit_val_batches = {};      ///< how much of each validation loader; 0: no validation
  Limit limit_test_batches = {};     ///< how much of each test loader
  Limit limit_predict_batches = {};  ///< how much of each predict loader
  /// How often to validate inside an epoch: every N batches, after each Fraction of the epoch, or every so much time.
  /// Default: at the epoch's end.
  ValidationInterval val_check_interval = {};
  /// Validate in each n-th epoch only; nullopt: val_check_interval counts batches across epochs.
  std::optional<int> check_val_every_n_epoch = 1;
  int num_sanity_val_steps = 2;  ///< batches of each validation loader that run before training; -1: all, 0: none
  int log_every_n_steps = 50;    ///< the loggers get a row of each n-th optimizer step; 0: no rows of steps
  /// Run this many batches of each loader once, without rows and files, to check that all of it works; 0: off.
  int fast_dev_run = 0;
  /// Train and validate on this much of the loaders, with the same batches in each epoch. Not set: off.
  std::optional<Limit> overfit_batches = std::nullopt;
  int reload_dataloaders_every_n_epochs = 0;  ///< get new loaders every N epochs; 0: never
  bool use_distributed_sampler = true;        ///< each of several processes gets a part of a loader; false: all of it
  /// Validate, test and predict run in inference mode; false: under no_grad, as a validation in a fit does.
  bool inference_mode = true;
  NonFinite non_finite = NonFinite::stop;  ///< what a fit does about a loss or a gradient that is not finite
  // Settings of the whole process. Trainers that run at the same time share them; conflicting values throw an Error.
  bool detect_anomaly = false;                   ///< backward throws and names a function that returns nan; slow
  bool deterministic = false;                    ///< only algorithms with the same bits each time; others throw
  std::optional<bool> benchmark = std::nullopt;  ///< let cuDNN measure its algorithms and use the fastest
  bool barebones = false;            ///< no logging, output, sanity check or checkpoints: for measuring the loop itself
  RootFolder default_root_dir = {};  ///< folder of logs and checkpoints; default: the current folder
  /// ModelCheckpoint writes its files in a thread of its own, from a copy of the state.
  bool save_in_background = false;
  Silence silence = {};                      ///< identifiers of warnings that are not printed
  Clock::time_point (*now)() = &Clock::now;  ///< the clock; tests replace it

  // Refused: options of Lightning's Trainer that belong elsewhere here, and other words. They come last, so that a
  // compiler prints their sentence first, whatever order a program names them in.
  [[no_unique_address]] elsewhere::Strategy<0> accelerator =
      elsewhere::unset;  ///< use SingleDevice{cuda(0)}, DistributedDataParallel{...}
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
  [[no_unique_address]] elsewhere::Length<0> epochs = elsewhere::unset;                ///< max_epochs
  [[no_unique_address]] elsewhere::Length<1> num_epochs = elsewhere::unset;            ///< likewise
  [[no_unique_address]] elsewhere::Length<2> steps = elsewhere::unset;                 ///< max_steps
};

}  // namespace fulgurite
