#pragma once
// What this library uses of LibTorch that LibTorch does not promise to keep, in one place, and the version for which it
// was tested. A new version of LibTorch means: read this list, run the torch tests, and change the number below.
//
//   - A dispatch key that nobody else has taken, at which operators are written down (recording_key).
//   - The key below it, which every thread includes, for products of matrices (product_key, native/eager.hpp) and for
//     operators that draw random numbers (device/own_random.hpp, which knows them by their schemas, and relies on what
//     makes a tensor of random numbers calling one of them), and two keys of LibTorch's own tests, which a thread
//     leaves out of its dispatch (product_marks, native/open.hpp).
//   - Autocast, declared here again, since its own header would bring in the operator library.
//   - Memory that changes hands between two storages (swap_memory).
//   - Storages and tensors by their implementations: unsafeGetStorageImpl, unsafeGetTensorImpl, make_tensor,
//     shallow_copy_and_detach, set_storage_keep_dtype, set_sizes_contiguous, version_counter, set_wrapped_number
//     (capture/, optim/, weights/averaging.hpp, device/value.hpp).
//   - The lists of hooks that a tensor keeps for autograd (capture/world.hpp).
//   - Kernels of the CPU called past the dispatcher: at::cpu::linalg_vector_norm (optim/clip.hpp), at::cpu::sqrt_out
//     (optim/block.hpp), at::cpu::mm_out and its like (native/reference.hpp); memory for a result without the
//     dispatcher (at::detail::empty_cpu), and a loop over a tensor for its threads (native/threads.hpp).
//   - Names and signatures of operators, which decide what a tape may do with a call (capture/listing.hpp,
//     capture/out_form.hpp, capture/direct_gradients.hpp).
//   - The state in which a CUDA graph leaves the allocators when its recording fails (capture/graph/cuda_graph.hpp).

#include <utility>

#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <torch/version.h>

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

/// Everybody who looks at one of the two storages sees the memory of the other.
inline void swap_memory(c10::StorageImpl& a, c10::StorageImpl& b) {
  std::swap(a._mutable_data_ptr_no_checks(), b._mutable_data_ptr_no_checks());
}

}  // namespace fulgurite::libtorch
