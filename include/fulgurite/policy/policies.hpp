#pragma once
// The policies of a trainer: the device, the precision, and who drives the optimizer.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

// Devices. The tags are types, so that rules can see them at compile time.

/// The CPU. Rules know that it is not a GPU.
struct Cpu {
  static constexpr Known on_gpu = Known::no;
};
/// An NVIDIA GPU; `cuda(1)` is the second one.
struct Cuda {
  static constexpr Known on_gpu = Known::yes;
  int index = 0;

  constexpr Cuda operator()(int which) const { return {which}; }
};
/// Another accelerator, by LibTorch's name for it: `Accelerator{"xpu"}`, `Accelerator{"mps"}`, `Accelerator{"xpu:1"}`
/// (the second one), or the name that a backend of your own has registered for "privateuseone". Rules treat it as a
/// GPU. The strategy throws an Error if LibTorch has no accelerator of that name.
struct Accelerator {
  static constexpr Known on_gpu = Known::yes;
  std::string name;

  explicit Accelerator(std::string_view its_name) : name(its_name) {}
};
/// A GPU if there is one, else another accelerator that LibTorch sees, else the CPU. This is decided when the program
/// starts, so rules about GPUs become early exceptions.
struct AutomaticDevice {
  static constexpr Known on_gpu = Known::at_run_time;
};
/// A device named by a command line or a file: "cpu", "cuda", "cuda:1" (the second GPU), the name of another
/// accelerator, or "auto" (as `automatic`). It is a single type, so that one trainer in the program works for all of
/// them; rules about GPUs become early exceptions. The strategy throws an Error for any other name.
struct NamedDevice {
  static constexpr Known on_gpu = Known::at_run_time;
  std::string name;

  explicit NamedDevice(std::string_view its_name) : name(its_name) {}
};

/// A device's type, which declares whether it is a GPU.
template <class D>
concept DeviceTag = FULGURITE_SAYS(D, Known, on_gpu);
/// Stands in an error message for an argument that is no device; `NoDevice<void>`: there was none.
template <class Given>
struct NoDevice {};

/// The CPU as programs write it: `SingleDevice{cpu}`.
inline constexpr Cpu cpu{};
/// The first GPU: `SingleDevice{cuda}`; the second one: `SingleDevice{cuda(1)}`.
inline constexpr Cuda cuda{};
/// The first GPU or other accelerator where there is one, else the CPU: `SingleDevice{automatic}`.
inline constexpr AutomaticDevice automatic{};

// Precision policies: tags whose constants define what is done with parameters, inputs, operators and the loss.

/// The floating-point types of precisions, independent of a tensor library.
enum class Dtype : std::uint8_t { float32, float64, bfloat16, float16 };

namespace policy {
/// The constants of a precision. Rules and strategies read nothing else.
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

// Parameters, buffers and floating-point tensors of batches are converted. LibTorch's default type is not changed,
// since it belongs to the whole process: workers of a loader and other trainers make tensors at the same time. So a
// step must give the type of new tensors: torch::zeros(sizes, batch.data.options()) or torch::zeros_like(x). In a type
// other than the default, the first step of a fit is checked for calls that do not.

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
/// Float32 parameters, operators in float16 where that is safe, and a loss that is scaled so that small gradients do
/// not underflow: "16-mixed". A step whose gradients are not finite is skipped, and the scale is lowered. For 100
/// skipped steps in a row see TrainerOptions::non_finite.
struct Fp16Mixed {  // has its constants here and not in a base, since designated initializers warn about bases
  using Stateless = ByChoice;
  static constexpr Dtype parameters = Dtype::float32;
  static constexpr bool autocasts = true;
  static constexpr Dtype compute = Dtype::float16;
  static constexpr bool scales_loss = true;
  static constexpr std::string_view name = "16-mixed";
  double init_scale = 65536.0;  ///< what the loss is multiplied by at first
  double growth_factor = 2.0;   ///< what the scale is multiplied by after growth_interval good steps
  double backoff_factor = 0.5;  ///< what the scale is multiplied by after a step that was skipped
  int growth_interval = 2000;   ///< good steps in a row after which the scale grows
};
/// Parameters and inputs in bfloat16, with half the memory and coarse updates: "bf16-true".
struct Bf16True : policy::PrecisionTraits<Dtype::bfloat16, false, Dtype::bfloat16, false> {
  static constexpr std::string_view name = "bf16-true";
};
/// Parameters and inputs in float16, no scaling: "16-true".
struct Fp16True : policy::PrecisionTraits<Dtype::float16, false, Dtype::float16, false> {
  static constexpr std::string_view name = "16-true";
};

// Who drives the optimizer: the trainer (Automatic) or the model's training_step (Manual).

/// Limits the 2-norm over all gradients to `value`, by the factor min(1, value / (norm + 1e-6)).
struct ClipNorm {
  double value;
};
/// Limits every gradient element to [-value, value].
struct ClipValue {
  double value;
};

/// No clipping, or one of the two. A value that is not positive is refused when the run starts.
struct Clip {
  enum class Kind : std::uint8_t { none, norm, value };
  Kind kind = Kind::none;
  double limit = 0;

  constexpr Clip() = default;
  constexpr Clip(ClipNorm by) : kind(Kind::norm), limit(by.value) {}    // implicit: .clip = ClipNorm{0.5}
  constexpr Clip(ClipValue by) : kind(Kind::value), limit(by.value) {}  // implicit: .clip = ClipValue{0.5}
  /// Refuses a plain number, which could mean either, and Lightning's "norm", which has no limit.
  template <class T, bool says_by_what = false>
    requires(std::is_arithmetic_v<T> || std::convertible_to<T, std::string_view>)
  constexpr Clip(T const&) {
    static_assert(says_by_what, "[fulgurite.policy.clip_number] a limit says what it limits: ClipNorm{1.0}, the norm "
                                "of all gradients together, "
                                "or ClipValue{1.0}, each element");
  }
  friend constexpr bool operator==(Clip const&, Clip const&) = default;
};

/// Automatic optimization: the trainer clears gradients, runs backward, clips, and steps the one optimizer. With K =
/// accumulate_grad_batches, gradients of K batches are averaged before each step. A plain aggregate,
/// `Automatic{.accumulate_grad_batches = 4, .clip = ClipNorm{0.5}}`; `ctx.accumulate(k)` changes K at run time.
struct Automatic {
  using Stateless = ByChoice;
  static constexpr bool automatic = true;
  int accumulate_grad_batches = 1;  ///< K: the number of batches whose gradients make one step
  Clip clip = {};  ///< what gradients are limited to before each step: `ClipNorm{1.0}`, `ClipValue{0.5}`
  int tbptt = 0;   ///< time steps of a slice, where the model carries a `Hidden` state between slices (truncated
                   ///< back-propagation)
};

/// Manual optimization: `training_step` returns void and does everything itself by its context:
/// `ctx.minimize(optimizer, loss)`, or `ctx.backward(loss)`, `ctx.clip_gradients(optimizer, ClipNorm{1})`,
/// `ctx.step(optimizer)`.
struct Manual {
  using Stateless = ByChoice;
  static constexpr bool automatic = false;
};

// Which kernels a step uses beside LibTorch's.

/// The library for matrix products on the CPU. The results are the same to the bit, except those of `fastest`. On a GPU
/// `fastest` means layer norms and sums over rows by this library's kernels; the other words mean LibTorch's there.
enum class Matmul : std::uint8_t {
  faster,     ///< LIBXSMM if it gives LibTorch's exact bits, and is faster by a rule of shape and processor
  certified,  ///< LIBXSMM wherever it gives LibTorch's exact bits
  fastest,    ///< LIBXSMM if it is faster by that rule, summed in the order that is fastest: other last bits than
              ///< LibTorch's, as near to the exact result, and the same ones in each run on one kind of processor
  libtorch,   ///< LibTorch only
};

// Strategies that replay recorded steps, and check replays at intervals.

/// A strategy that replays steps and checks its replays. It has unchecked(), half_checked(), confirm(board, step),
/// replays(), may_replay(), goes_back(), give_up(reason) and pass_warnings(f), for manual optimization
/// in_turn(turn, loss, f), which calls f in the middle of a step, and for budgets of open fits check_is_next(). With
/// drop_recordings(model), setup is not called again after a trial run. A strategy that captures but has no unchecked()
/// thereby declares that its replays cannot be wrong.
template <class S>
concept ChecksReplays = S::captures && requires(S const& strategy) { strategy.unchecked(); };
/// A strategy that can make several steps in one replay: it has steps_a_replay(), join_steps(bool), finish_replays()
/// and stay_single(reason). In between nothing may read what the steps compute.
template <class S>
concept JoinsSteps = ChecksReplays<S> && requires(S& strategy) { strategy.finish_replays(); };

/// An argument of make_trainer that excludes all default callbacks: the trainer has only those that are named. Use it
/// in a test, a sweep or a measurement. Each tag below excludes one default callback.
struct NoDefaults {};

/// Excludes the progress bar.
struct NoProgressBar {};
/// Excludes the table of the model at the start of a fit.
struct NoModelSummary {};
/// Excludes the default logger.
struct NoLogger {};
/// Excludes the file of the last epoch.
struct NoCheckpoints {};
/// Excludes the table of results after validate and test.
struct NoResultsTable {};

/// The strategy of a trainer without an explicit one. fulgurite/defaults.hpp defines it for programs on LibTorch.
template <class Model>
struct DefaultStrategy;
/// The callbacks that are added to those in `Given`, which may contain tags. fulgurite/defaults.hpp defines it.
template <class... Given>
struct DefaultCallbacks;

namespace policy {
template <class T>
inline constexpr bool is_word =
    std::is_same_v<T, NoDefaults> || std::is_same_v<T, NoProgressBar> || std::is_same_v<T, NoModelSummary> ||
    std::is_same_v<T, NoLogger> || std::is_same_v<T, NoCheckpoints> || std::is_same_v<T, NoResultsTable>;

/// True if default callbacks are added with this strategy: unless its backend declares `static constexpr bool
/// adds_defaults = false`, as the backend of the library's own tests does.
template <class S>
consteval bool adds_defaults() {
  if constexpr (requires { requires !std::bool_constant<S::Backend::adds_defaults>::value; }) return false;
  else return true;
}

// Captured{strategy} for strategies without a specialization: a single error message.

template <class S>
inline constexpr bool can_be_captured = false;

/// Stands for the strategy in a refused Captured, so that no further errors follow.
struct NoStrategy {
  template <class S>
  explicit NoStrategy(S const&) {}
};
template <class S>
using OrNothing = std::conditional_t<std::is_class_v<S> && !std::is_final_v<S>, S, NoStrategy>;
}  // namespace policy

/// Which kernels the steps of a captured strategy may use. What is chosen depends on shapes and the kind of
/// processor, never on a measurement.
enum class Kernels : std::uint8_t {
  same_bits,  ///< those that give LibTorch's exact bits
  fastest,  ///< `Matmul::fastest` in place of the strategy's own choice, in steps that are replayed and those that run
            ///< as they are written alike, so that they can still be compared in every bit; on a GPU also gradients
            ///< of -0 in a graph where a step as it is written has 0
};
/// The short names: `Captured{SingleDevice{cpu}, kernels::fastest}`.
namespace kernels {
using enum Kernels;
}

/// Options of Captured: `Captured{SingleDevice{cpu}, {.go_back = false}}`.
struct CaptureOptions {
  /// If a check finds that replays were wrong, the fit rolls back to the last state that was checked, of which it keeps
  /// a copy in memory, and continues without replays. false: it ends with an Error.
  bool go_back = true;
  Kernels kernels = Kernels::same_bits;  ///< `kernels::fastest` allows other last bits
  /// On a GPU so many steps, 1 to 64, become one replay where their batches are known ahead and nothing reads what they
  /// compute: until a row is due, a validation, a checkpoint or the epoch's end. Recording them runs training_step once
  /// more for each. It pays where the host is slower than the GPU.
  int steps_a_replay = 1;
};

// With CUDA's headers Captured is a different class than without them. It also has a different name, so that a program
// may contain parts that were built either way.
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
inline namespace with_cuda_graphs {
#endif

/// A strategy that records training steps and replays them from then on, with the same bits:
/// `Captured{SingleDevice{cpu}}`. Each strategy needs a specialization, which must know everything that happens in a
/// step; torch/capture/captured.hpp has the one for SingleDevice.
template <class S>
class Captured : public policy::OrNothing<S> {
  static_assert(policy::can_be_captured<S>,
                "[fulgurite.capture.strategy] Captured cannot replay the steps of this strategy: use SingleDevice, or "
                "the strategy without Captured");

 public:
  explicit Captured(S strategy, CaptureOptions = {}) : policy::OrNothing<S>(std::move(strategy)) {}
  Captured(S strategy, Kernels) : Captured(std::move(strategy)) {}
  template <Unnamed T>
  Captured(S strategy, T const&) : Captured(std::move(strategy)) {}  // so that its strategy's steps can refuse it
};

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
}  // namespace with_cuda_graphs
#endif

}  // namespace fulgurite
