#pragma once
// The policies of a trainer: where it computes, in which precision, who drives the optimizer.

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

// Where a strategy computes. The tags are types, so that rules can see them.

/// The processor. Rules know that no GPU is meant.
struct Cpu {
  static constexpr Known on_gpu = Known::no;
};
/// An NVIDIA GPU; `Cuda{1}` is the second one.
struct Cuda {
  static constexpr Known on_gpu = Known::yes;
  int index = 0;
};
/// A GPU where there is one, else the CPU; decided when the program starts, so rules about GPUs become early
/// exceptions.
struct AutomaticDevice {
  static constexpr Known on_gpu = Known::at_run_time;
};
/// A device that a command line or a file names: "cpu", "cuda", "cuda:1" (the second GPU) or "auto" (a GPU where there
/// is one). One type, so that one trainer in the program serves them all; rules about GPUs become early exceptions.
/// Error where the name is none of these.
struct NamedDevice {
  enum class Kind : std::uint8_t { automatic, cpu, cuda };
  static constexpr Known on_gpu = Known::at_run_time;
  Kind kind = Kind::automatic;
  int index = 0;

  explicit NamedDevice(std::string_view name);

 private:
  static constexpr int most = 127;  // as LibTorch counts

  /// Nothing, or a colon and a number.
  bool reads_index(std::string_view rest);
};

/// The type of a device, which says whether it is a GPU.
template <class D>
concept DeviceTag = FULGURITE_SAYS(D, Known, on_gpu);
/// What was given in the place of one; `NoDevice<void>`: nothing.
template <class Given>
struct NoDevice {};

/// The devices as they are written: `SingleDevice{cpu}`, `SingleDevice{cuda}` (the first GPU),
/// `SingleDevice{automatic}`.
inline constexpr Cpu cpu{};
inline constexpr Cuda cuda{};
inline constexpr AutomaticDevice automatic{};

// Precision policies: tags whose constants say what happens to parameters, inputs, operators and the loss.

/// The types of floating numbers that precisions speak of, without a tensor library.
enum class Dtype : std::uint8_t { float32, float64, bfloat16, float16 };

namespace policy {
/// The constants that every precision has; rules and strategies read nothing else.
template <Dtype Parameters, bool Autocasts, Dtype Compute, bool ScalesLoss>
struct PrecisionTraits {
  using Stateless = ByChoice;
  static constexpr Dtype parameters = Parameters;  ///< what parameters and floating inputs are converted to
  static constexpr bool autocasts = Autocasts;     ///< steps run under autocast ...
  static constexpr Dtype compute = Compute;        ///< ... to this type
  static constexpr bool scales_loss =
      ScalesLoss;  ///< backward starts from a scaled seed, gradients are unscaled before clipping
};
}  // namespace policy

// Parameters, buffers and floating tensors of batches are converted; LibTorch's default type is not, since it belongs
// to the whole process: workers of a loader and other trainers make tensors at the same time. What a step makes from
// nothing names its type: torch::zeros(sizes, batch.data.options()) or torch::zeros_like(x). The first step of a fit in
// another type than the default is watched for calls that do not.

/// Everything in single precision: "32-true".
struct Float32 : policy::PrecisionTraits<Dtype::float32, false, Dtype::float32, false> {
  static constexpr std::string_view name = "32-true";
};
/// Parameters and inputs in double precision: "64-true".
struct Float64 : policy::PrecisionTraits<Dtype::float64, false, Dtype::float64, false> {
  static constexpr std::string_view name = "64-true";
};
/// Float32 parameters, operators in bfloat16 where that is safe; needs no scaling: "bf16-mixed".
struct Bf16Mixed : policy::PrecisionTraits<Dtype::float32, true, Dtype::bfloat16, false> {
  static constexpr std::string_view name = "bf16-mixed";
};
/// Float32 parameters, operators in float16 where that is safe, the loss scaled so that small gradients survive:
/// "16-mixed". A step whose gradients are not finite is skipped and the scale shrinks by `backoff_factor`; after
/// `growth_interval` good steps it grows by `growth_factor`. What 100 skipped steps in a row mean:
/// TrainerOptions::non_finite.
struct Fp16Mixed {  // its constants stand here, not in a base: designated initializers warn about bases
  using Stateless = ByChoice;
  static constexpr Dtype parameters = Dtype::float32;
  static constexpr bool autocasts = true;
  static constexpr Dtype compute = Dtype::float16;
  static constexpr bool scales_loss = true;
  static constexpr std::string_view name = "16-mixed";
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int growth_interval = 2000;
};
/// Parameters and inputs in bfloat16: half the memory, coarse updates: "bf16-true".
struct Bf16True : policy::PrecisionTraits<Dtype::bfloat16, false, Dtype::bfloat16, false> {
  static constexpr std::string_view name = "bf16-true";
};
/// Parameters and inputs in float16, no scaling: "16-true".
struct Fp16True : policy::PrecisionTraits<Dtype::float16, false, Dtype::float16, false> {
  static constexpr std::string_view name = "16-true";
};

// Who drives the optimizer: the trainer (Automatic) or the model's training_step (Manual).

/// The 2-norm over all gradients together is limited to `value`: factor min(1, value / (norm + 1e-6)).
struct ClipNorm {
  double value;
};
/// Every gradient element is limited to [-value, value].
struct ClipValue {
  double value;
};

/// No clipping, or one of the two; a value that is not positive is refused when the run starts.
struct Clip {
  enum class Kind : std::uint8_t { none, norm, value };
  Kind kind = Kind::none;
  double limit = 0;

  constexpr Clip() = default;
  constexpr Clip(ClipNorm by) : kind(Kind::norm), limit(by.value) {}    // implicit: .clip = ClipNorm{0.5}
  constexpr Clip(ClipValue by) : kind(Kind::value), limit(by.value) {}  // implicit: .clip = ClipValue{0.5}
  /// A number alone could mean either.
  template <class Number, bool says_by_what = false>
    requires std::is_arithmetic_v<Number>
  constexpr Clip(Number) {
    static_assert(says_by_what, "[fulgurite.policy.clip_number] a limit says what it limits: ClipNorm{1.0}, the norm "
                                "of all gradients together, "
                                "or ClipValue{1.0}, each element");
  }
  friend constexpr bool operator==(Clip const&, Clip const&) = default;
};

/// The trainer clears, runs backward, clips and steps the one optimizer. With K = accumulate_grad_batches, gradients of
/// K batches are averaged before each step. A plain aggregate: K is run-time state, changed by `ctx.accumulate(k)`.
struct Automatic {
  using Stateless = ByChoice;
  static constexpr bool automatic = true;
  int accumulate_grad_batches = 1;
  Clip clip = {};
  int tbptt = 0;  ///< time steps of a slice, where the model carries a `Hidden` state between slices (truncated
                  ///< back-propagation)
};

/// `training_step` returns void and does everything itself through its context: `ctx.minimize(optimizer, loss)`, or
/// `ctx.backward(loss)`, `ctx.clip_gradients(optimizer, ClipNorm{1})`, `ctx.step(optimizer)`.
struct Manual {
  using Stateless = ByChoice;
  static constexpr bool automatic = false;
};

// Which matrix products a step on the CPU uses.

/// Whose matrix products the steps of a strategy on the CPU use; results are the same to the bit.
enum class Matmul : std::uint8_t {
  faster,     ///< LIBXSMM's, where they give LibTorch's very bits and a rule of shape and processor says faster
  certified,  ///< LIBXSMM's, wherever they give LibTorch's very bits
  libtorch,   ///< LibTorch's alone
};

// Strategies that replay recorded steps, and check now and then that the replays are right.

/// A strategy that replays steps and checks its replays: it has unchecked(), half_checked(), confirm(board, step),
/// replays(), may_replay(), goes_back(), give_up(reason) and tell(f). A strategy that captures and has no unchecked()
/// says that its replays cannot be wrong.
template <class S>
concept ChecksReplays = S::captures && requires(S const& strategy) { strategy.unchecked(); };

/// Among the arguments of make_trainer: it has the callbacks that are named, and adds none. Say it in a test, a sweep,
/// a measurement. Each word below leaves out one of what is added.
struct NoDefaults {};

/// No progress bar.
struct NoProgressBar {};
/// No table of the model when a fit starts.
struct NoModelSummary {};
/// No log.
struct NoLogger {};
/// No file of the last epoch.
struct NoCheckpoints {};
/// No table of what validate and test have found.
struct NoResultsTable {};

/// The strategy of a trainer that is not told one: fulgurite/defaults.hpp defines it, for programs on LibTorch.
template <class Model>
struct DefaultStrategy;
/// The callbacks that are added to those in `Given`, among them words: fulgurite/defaults.hpp defines it.
template <class... Given>
struct DefaultCallbacks;

namespace policy {
template <class T>
inline constexpr bool is_word =
    std::is_same_v<T, NoDefaults> || std::is_same_v<T, NoProgressBar> || std::is_same_v<T, NoModelSummary> ||
    std::is_same_v<T, NoLogger> || std::is_same_v<T, NoCheckpoints> || std::is_same_v<T, NoResultsTable>;

/// Whether callbacks are added beside a strategy: where its backend, which is a tensor library, does not say
/// `static constexpr bool adds_defaults = false`. That of our tests says it, since nobody watches them.
template <class S>
consteval bool adds_defaults() {
  if constexpr (requires { requires !std::bool_constant<S::Backend::adds_defaults>::value; }) return false;
  else return true;
}
}  // namespace policy

// Captured{strategy}, as it is for strategies that nobody has taught to replay a step: one sentence.

namespace policy {
template <class S>
inline constexpr bool can_be_captured = false;

/// The strategy itself in place of a refused Captured, so that nothing else is reported.
struct NoStrategy {
  template <class S>
  explicit NoStrategy(S const&) {}
};
template <class S>
using OrNothing = std::conditional_t<std::is_class_v<S> && !std::is_final_v<S>, S, NoStrategy>;
}  // namespace policy

/// `go_back`: where a check finds that steps were replayed wrongly, the fit returns to the last state that was right,
/// of which it keeps a copy in memory, and runs on from there as it is written. Without, it ends with an Error.
struct CaptureOptions {
  /// Where a replay is found to be wrong, the fit returns to the last state that was known to be right, and goes on
  /// from there as written; false: an Error.
  bool go_back = true;
};

// With CUDA's headers Captured is another class than without them. It has another name, too, so that a program may hold
// parts that were built either way.
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
inline namespace with_cuda_graphs {
#endif

/// A strategy that records training steps and replays them from then on, with the same bits. Each strategy it runs has
/// a specialization, since it must know all that happens in a step: torch/capture/captured.hpp has the one of
/// SingleDevice.
template <class S>
class Captured : public policy::OrNothing<S> {
  static_assert(policy::can_be_captured<S>,
                "[fulgurite.capture.strategy] Captured cannot replay the steps of this strategy: use SingleDevice, or "
                "the strategy without Captured");

 public:
  explicit Captured(S strategy, CaptureOptions = {}) : policy::OrNothing<S>(std::move(strategy)) {}
};

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
}  // namespace with_cuda_graphs
#endif

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/policy/policies.ipp>
#endif
