#pragma once
// What this library uses of LibTorch that LibTorch does not promise to keep, in one place, and the version for which it
// was tested. A new version of LibTorch means: read this list, run the torch tests, and change the number below.
//
//   - A dispatch key that nobody else has taken, at which operators are written down (recording_key).
//   - The key below it, which every thread includes, for products of matrices (product_key, native/products.hpp)
//     and for operators that draw random numbers (device/rng.hpp, which knows them by their schemas, and relies on what
//     makes a tensor of random numbers calling one of them), and two keys of LibTorch's own tests, which a thread
//     leaves out of its dispatch (product_mark, certified_mark).
//   - Autocast, declared here again, since its own header would bring in the operator library.
//   - Memory that changes hands between two storages (swap_memory).
//   - Storages and tensors by their implementations: unsafeGetStorageImpl, unsafeGetTensorImpl, make_tensor,
//     shallow_copy_and_detach, set_storage_keep_dtype, set_sizes_contiguous, version_counter, set_wrapped_number
//     (capture/, optim/, weights/averaging.hpp, device/value.hpp).
//   - The lists of hooks that a tensor keeps for autograd (capture/world.hpp).
//   - Kernels of the CPU called past the dispatcher: at::cpu::linalg_vector_norm (optim/clip.hpp), at::cpu::sqrt_out
//     (optim/arena_optimizer.hpp), at::cpu::mm_out and its like (native/products.hpp); memory for a result without the
//     dispatcher (at::detail::empty_cpu), and a loop over a tensor for its threads (native/plan.hpp).
//   - Names and signatures of operators, which decide what a tape may do with a call (capture/recorder.hpp,
//     capture/tape_step.hpp, capture/tape.hpp).
//   - The state in which a CUDA graph leaves the allocators when its recording fails (capture/graph/cuda_graph.hpp).

#include <concepts>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/policy/policies.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#if !defined(FULGURITE_LIBTORCH_TESTED)
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "[fulgurite.libtorch.version] Fulgurite uses parts of LibTorch that may change with every version, and "
              "was tested with 2.11: use that one, or run Fulgurite's torch tests with yours, and compile with "
              "-DFULGURITE_LIBTORCH_TESTED when they pass");
#endif

namespace at::autocast {
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API void set_autocast_enabled(at::DeviceType device_type, bool enabled);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API void set_autocast_dtype(at::DeviceType device_type, at::ScalarType dtype);
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API void clear_cache();
}  // namespace at::autocast

namespace fulgurite::libtorch {

/// Where calls of operators are intercepted while a step is recorded. The key lies below autograd and autocast and has
/// no kernel in LibTorch, so it costs nothing while it is not included.
inline constexpr auto recording_key = c10::DispatchKey::Fake;

/// Where products of matrices are intercepted. LibTorch has kernels there for operators that make tensors of nothing,
/// and none for those that multiply or that fill a tensor with random numbers.
inline constexpr auto product_key = c10::DispatchKey::BackendSelect;
/// By leaving these keys out of its dispatch a thread says that a scope for products is open, and that speed does not
/// matter there. Autograd hands what is left out on to the threads that it starts. No operator has a kernel there, so
/// leaving them out does nothing else.
inline constexpr auto product_mark = c10::DispatchKey::TESTING_ONLY_GenericMode,
                      certified_mark = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

/// While it lives, products of matrices on this thread are computed as `how` says, whatever was said before.
class Marked {
 public:
  explicit Marked(Matmul how);

 private:
  static constexpr c10::DispatchKeySet both{product_mark, certified_mark};
  static c10::impl::LocalDispatchKeySet now() { return c10::impl::tls_local_dispatch_key_set(); }
  static c10::DispatchKeySet marks_of(Matmul how);
  c10::impl::ForceDispatchKeyGuard guard_;
};

/// Everybody who looks at one of the two storages sees the memory of the other.
void swap_memory(c10::StorageImpl& a, c10::StorageImpl& b);

// This library's names of element types, as LibTorch's scalar types.

constexpr at::ScalarType scalar_type(Dtype type) {
  switch (type) {
  case Dtype::float64: return at::ScalarType::Double;
  case Dtype::bfloat16: return at::ScalarType::BFloat16;
  case Dtype::float16: return at::ScalarType::Half;
  case Dtype::float32: break;
  }
  return at::ScalarType::Float;
}

/// Whether a precision changes the type of parameters and inputs, as Float64, Bf16True and Fp16True do.
template <class Precision>
inline constexpr bool converts_inputs = std::remove_cvref_t<Precision>::parameters != Dtype::float32;

// The scope in which a step runs in its precision: autocast for the mixed precisions, on this thread alone. LibTorch
// itself has no such guard. Float64, Bf16True and Fp16True need none: the parameters and the batches are converted, and
// a tensor that a step makes from nothing has the type that the step names.

/// Until the scope ends, operators of this thread run in `type` where LibTorch deems that safe. Scopes nest. LibTorch
/// keeps the parameters that it has cast, for reuse; the outermost scope makes it forget them.
class AutocastScope {
 public:
  AutocastScope(at::DeviceType device, at::ScalarType type);
  ~AutocastScope();
  AutocastScope(AutocastScope const&) = delete;
  AutocastScope& operator=(AutocastScope const&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_;
  at::ScalarType type_;
};

struct NoScope {};

template <class Precision>
auto autocast(Precision const&, at::Device device) {
  if constexpr (Precision::autocasts) return AutocastScope(device.type(), scalar_type(Precision::compute));
  else return NoScope{};
}

// Modes that are switched until a scope ends, on this thread or in one model: gradients, and train() or eval().

/// No gradients until the scope ends; with `inference` LibTorch's inference mode, whose tensors can never be trained
/// on. Where autocast is on, casts of parameters that were made in the scope are forgotten: they have no graph, and a
/// later training step must not reuse them.
class NoGradScope {
 public:
  explicit NoGradScope(bool inference = false) {
    if (inference) inference_.emplace();
  }
  ~NoGradScope() {
    if (at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA))
      at::autocast::clear_cache();
  }
  NoGradScope(NoGradScope const&) = delete;
  NoGradScope& operator=(NoGradScope const&) = delete;

 private:
  at::NoGradGuard no_graph_;
  std::optional<c10::InferenceMode> inference_;
};

/// The model is in eval() until the scope ends (with `now` false the model sees to that itself). Afterwards each
/// sub-module has the flag that it had before, so that one which was frozen in eval() still is.
class EvaluationScope {
 public:
  explicit EvaluationScope(torch::nn::Module& model, bool now = true);
  /// train(flag) also sets all sub-modules. Parents come before their children in the list, so each module ends with
  /// its own flag.
  ~EvaluationScope();
  EvaluationScope(EvaluationScope const&) = delete;
  EvaluationScope& operator=(EvaluationScope const&) = delete;

 private:
  torch::nn::Module& model_;
  bool training_;
  std::vector<std::shared_ptr<torch::nn::Module>> children_;
  std::vector<bool> flags_;
};

template <class Model>
auto evaluating(Model& model, [[maybe_unused]] bool now = true) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return EvaluationScope(model, now);
  else return NoScope{};
}

/// From here on operators that this thread calls run in it alone. `others`: how many threads those have that begin
/// later. LibTorch sets a thread's number and the number for threads to come in one call, and only another thread can
/// undo the latter.
void run_in_this_thread(int others);

// The device that operators of this thread use where only its kind is named, as torch::kCUDA does.

/// From here on it is this one, for the CPU nothing changes.
void make_current(c10::Device device);

// Memory that runs out: which exceptions of LibTorch say so, and what its caches hold.

/// Whether a text of LibTorch says that there was no memory for something. LibTorch has a type for it on GPUs alone;
/// its allocator on the CPU, the CUDA runtime and NVIDIA's libraries say it in words.
bool tells_of_no_memory(std::string_view text);

bool out_of_memory(std::exception const& error);

/// The allocator of a GPU that is in use; null for the CPU.
c10::DeviceAllocator* device_allocator(c10::Device device);

/// Gives back what is kept for later and in use by nobody: of the device's allocator, and of the C library.
void free_caches(c10::Device device);

/// The most bytes of the device that tensors had at one time since `restart_peak_memory`; nothing for the CPU.
std::optional<double> peak_memory(c10::Device device);
void restart_peak_memory(c10::Device device);

// How much memory LibTorch's allocator of a device holds, and how to wait for a device.

/// Bytes and counts under the names of PyTorch's torch.cuda.memory_stats ("allocated_bytes.all.current", "... .peak",
/// "num_ooms"). Empty for the CPU.
std::vector<std::pair<std::string, double>> device_stats(c10::Device device);

/// Returns when the device has done all that it was given; at once for the CPU.
void synchronize(c10::Device device);

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/internals.ipp>
#endif
