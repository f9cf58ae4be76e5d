#pragma once
// Features of LibTorch that this library uses although LibTorch does not guarantee them, in one place, and the version
// that they were tested with. For a new version of LibTorch: read this list, run the torch tests, and change the number
// below.
//
//   - A dispatch key that nothing else uses, at which operators are recorded (recording_key).
//   - The key below it, which every thread includes: for matrix products (product_key, native/products.hpp), for sums
//     and layer norms on a GPU (native/matmul_scope.hpp), and for operators that draw random numbers (device/rng.hpp,
//     which recognises them by their schemas, and relies on every operator that creates a random tensor calling one of
//     them). Two keys of LibTorch's own tests, which a thread excludes from its dispatch (product_mark,
//     other_product_mark).
//   - Autocast, declared here again, since its own header would include the operator library.
//   - Swapping the memory of two storages (swap_memory).
//   - The implementations of storages and tensors: unsafeGetStorageImpl, unsafeGetTensorImpl, make_tensor,
//     shallow_copy_and_detach, set_storage_keep_dtype, set_sizes_contiguous, version_counter, set_wrapped_number
//     (capture/, optim/, weights/averaging.hpp, device/value.hpp).
//   - The lists of hooks that a tensor keeps for autograd (capture/world.hpp).
//   - CPU kernels called without the dispatcher: at::cpu::linalg_vector_norm (optim/clip.hpp), at::cpu::sqrt_out
//     (optim/rules.hpp), at::cpu::mm_out and the like (native/products.hpp); memory for a result without the
//     dispatcher (at::detail::empty_cpu), and a tensor's loop over its elements, for its threads (on_threads).
//   - Names and signatures of operators, which determine what a tape may do with a call (capture/recorder.hpp,
//     capture/tape_step.hpp, capture/tape.hpp).
//   - The library through which it loads NVRTC and CUDA's driver (native/matmul_scope.ipp), and the rounding of its GPU
//     kernels, which update rules are compared with before use (optim/update_kernel.ipp).
//   - The state in which a CUDA graph leaves the allocators if its recording fails (capture/graphs.hpp).

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
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
#include <c10/util/FunctionRef.h>
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

/// The key at which operator calls are intercepted while a step is recorded. It lies below autograd and autocast and
/// has no kernel in LibTorch, so it costs nothing while it is not included.
inline constexpr auto recording_key = c10::DispatchKey::Fake;

/// The key at which matrix products, sums and layer norms are intercepted. LibTorch has kernels there for operators
/// that create tensors, and none for those that multiply, sum or fill a tensor with random numbers.
inline constexpr auto product_key = c10::DispatchKey::BackendSelect;
/// By excluding these keys from its dispatch a thread marks which scope for products is open: the first for
/// Matmul::faster, the second for Matmul::fastest, both for Matmul::certified. Autograd passes excluded keys on to the
/// threads that it starts. No operator has a kernel at them, so excluding them has no other effect.
inline constexpr auto product_mark = c10::DispatchKey::TESTING_ONLY_GenericMode,
                      other_product_mark = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

/// While it lives, matrix products on this thread are computed as `how` says, overriding outer scopes.
class Marked {
 public:
  explicit Marked(Matmul how);

 private:
  static constexpr c10::DispatchKeySet both{product_mark, other_product_mark};
  static c10::impl::LocalDispatchKeySet now() { return c10::impl::tls_local_dispatch_key_set(); }
  static c10::DispatchKeySet marks_of(Matmul how);
  c10::impl::ForceDispatchKeyGuard guard_;
};

/// Swaps the memory of two storages for all of their users.
void swap_memory(c10::StorageImpl& a, c10::StorageImpl& b);

// Maps this library's names of element types to LibTorch's scalar types.

constexpr at::ScalarType scalar_type(Dtype type) {
  switch (type) {
  case Dtype::float64: return at::ScalarType::Double;
  case Dtype::bfloat16: return at::ScalarType::BFloat16;
  case Dtype::float16: return at::ScalarType::Half;
  case Dtype::float32: break;
  }
  return at::ScalarType::Float;
}

/// True if a precision changes the type of parameters and inputs: Float64, Bf16True and Fp16True.
template <class Precision>
inline constexpr bool converts_inputs = std::remove_cvref_t<Precision>::parameters != Dtype::float32;

// The scope in which a step runs in its precision: autocast for the mixed precisions, only on this thread. LibTorch
// itself has no such guard. Float64, Bf16True and Fp16True need none: parameters and batches are converted, and a
// tensor that a step creates has the type that the step names.

/// Until the scope ends, operators of this thread run in `type` where LibTorch considers that safe. Scopes nest.
/// LibTorch caches the parameters that it has cast; the outermost scope clears this cache.
class AutocastScope : Pinned {
 public:
  AutocastScope(at::DeviceType device, at::ScalarType type);
  ~AutocastScope();

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

// Modes that are changed until a scope ends, on this thread or in one model: gradients, and train() or eval().

/// Disables gradients until the scope ends; with `inference` by LibTorch's inference mode, whose tensors can never be
/// used in training. If autocast is on, casts of parameters made in the scope are dropped from the cache: they have no
/// graph, so a later training step must not reuse them.
class NoGradScope : Pinned {
 public:
  explicit NoGradScope(bool inference = false) {
    if (inference) inference_.emplace();
  }
  ~NoGradScope();

 private:
  at::NoGradGuard no_graph_;
  std::optional<c10::InferenceMode> inference_;
};

/// The model is in eval() until the scope ends (if `now` is false, the model does this itself). Afterwards each
/// sub-module has its previous flag, so one that was frozen in eval() stays in it.
class EvaluationScope : Pinned {
 public:
  explicit EvaluationScope(torch::nn::Module& model, bool now = true);
  /// train(flag) also sets all sub-modules. Parents come before their children in the list, so each module ends with
  /// its own flag.
  ~EvaluationScope();

 private:
  torch::nn::Module& model_;
  bool training_;
  std::vector<std::shared_ptr<torch::nn::Module>> children_;
  std::vector<bool> flags_;
};

/// Saves the buffers of a block, such as the averages of a batch norm, which a second run would update again, and
/// restores them at the end of the scope. A block that is not a module has none.
class BuffersKept : Pinned {
 public:
  explicit BuffersKept(auto const& block) {
    if constexpr (requires { block->buffers(); }) keep(block->buffers());
    else if constexpr (requires { block.buffers(); }) keep(block.buffers());
  }
  ~BuffersKept();

 private:
  void keep(std::vector<at::Tensor> buffers);
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

template <class Model>
auto evaluating(Model& model, [[maybe_unused]] bool now = true) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return EvaluationScope(model, now);
  else return NoScope{};
}

/// From now on this thread runs its operators alone. `others`: the number of threads for threads that start later.
/// LibTorch sets the number of a thread and that of later threads in one call, and only another thread can undo the
/// latter.
void run_in_this_thread(int others);

// The device that operators of this thread use if only a kind is named, as in torch::kCUDA.

/// Makes the device current for this thread; does nothing for the CPU.
void make_current(c10::Device device);

/// The tensor on the device. A copy from pinned memory overlaps with other work. Pageable memory may be reused at once
/// after the call.
at::Tensor to_device(at::Tensor const& tensor, at::Device device);

// Running out of memory: which exceptions of LibTorch mean it, and the content of LibTorch's caches.

bool out_of_memory(std::exception const& error);

/// Frees unused memory in the caches of the device's allocator and of the C library.
void free_caches(c10::Device device);

/// The largest number of bytes that tensors had on the device at one time since `restart_peak_memory`; nothing for the
/// CPU.
std::optional<double> peak_memory(c10::Device device);
void restart_peak_memory(c10::Device device);

// The memory that LibTorch's allocator of a device holds, and waiting for a device.

/// Bytes and counts under the names of PyTorch's torch.cuda.memory_stats ("allocated_bytes.all.current", "... .peak",
/// "num_ooms"). Empty for the CPU.
std::vector<std::pair<std::string, double>> device_stats(c10::Device device);

/// Returns when the device has finished all its work; at once for the CPU.
void synchronize(c10::Device device);

// LibTorch's threads. Its at::parallel_for is a template that runs on one thread if the program that includes it is
// compiled without OpenMP; LibTorch's own loop over the elements of a tensor is compiled with it.

/// Calls `f(i)` for all i from 0 to n - 1, each once, on as many threads as LibTorch may use.
void on_threads(std::int64_t n, c10::function_ref<void(std::int64_t)> f);

/// Calls `f(begin, end)` for parts of the numbers 0 to n - 1, without gaps: at most one part for each of LibTorch's
/// threads, and one alone where its operators on n numbers use one thread. A part begins at a multiple of 1024, so that
/// its vectors are whole, and threads write to lines of the cache of their own.
void in_parts(std::int64_t n, c10::function_ref<void(std::int64_t, std::int64_t)> f);

}  // namespace fulgurite::libtorch

// Loops over consecutive numbers, as many at a time as fill a register of this processor. Compilers do not vectorise
// such loops at the usual optimization levels.

namespace fulgurite::libtorch::native {

/// Numbers that fill a register of so many bytes.
template <class T, std::size_t bytes>
using Vector __attribute__((vector_size(bytes))) = T;

#if defined(__x86_64__)
template <class T, class F>
[[gnu::target("avx512f")]] inline auto in_vectors_of_64(F const& f) {
  return f.template operator()<Vector<T, 64>>();
}
template <class T, class F>
[[gnu::target("avx2,fma")]] inline auto in_vectors_of_32(F const& f) {
  return f.template operator()<Vector<T, 32>>();
}
#endif

/// Returns f<Numbers>() for the widest vectors of T, of `most` bytes at most, that this processor has: every one for
/// which LibTorch is made has those of 16. `f` and what it calls are always inlined, so that they are compiled for such
/// a processor, whatever the target of the rest of the program is.
template <class T, std::size_t most = 64, class F>
inline auto in_widest_vectors(F const& f) {
#if defined(__x86_64__)
  if constexpr (most >= 64)
    if (__builtin_cpu_supports("avx512f")) return in_vectors_of_64<T>(f);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return in_vectors_of_32<T>(f);
#endif
  return f.template operator()<Vector<T, 16>>();
}

/// f(to[i], from[i]...) for as many of n numbers as fill whole vectors; returns their number.
template <class Numbers, class T, class F, class... From>
[[gnu::always_inline]] inline std::int64_t each_vector(std::int64_t n, F const& f, T* to, From const*... from) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(T);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    Numbers result, given[sizeof...(From)];
    std::size_t k = 0;
    (std::memcpy(&given[k++], from + i, sizeof(Numbers)), ...);
    [&]<std::size_t... I>(std::index_sequence<I...>)
        __attribute__((always_inline)) { f(result, given[I]...); }(std::index_sequence_for<From...>{});
    std::memcpy(to + i, &result, sizeof result);
  }
  return i;
}

/// f(to[i], from[i]...), which sets the first, for n numbers. `f` is called with vectors and, for the remainder, with
/// single numbers, must compute the same for both, and is inlined; `to` may be one of the inputs. It may not add to a
/// product: in vectors that would be one fused operation.
template <class T, class F, class... From>
inline void each_number(std::int64_t n, F const& f, T* to, From const*... from) {
  auto i = in_widest_vectors<T, 32>(
      [&]<class Numbers>() __attribute__((always_inline)) { return each_vector<Numbers>(n, f, to, from...); });
  for (; i != n; ++i) f(to[i], from[i]...);
}

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/internals.ipp>
#endif
