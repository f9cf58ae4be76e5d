#pragma once
// Where the kernels of small products come from: LIBXSMM, where the program is built with it.

#include <atomic>

namespace fulgurite::libtorch::native {

/// C = A B for one shape, all three with rows one after the other; A may be turned. B comes first, as for a library
/// that thinks in columns.
using Kernel = void (*)(float const* b, float const* a, float* c, ...);

struct Kernels {
  char const* name;
  /// nullptr: there is none for this shape. Distances are those from row to row, or where A is turned from column to
  /// column.
  Kernel (*product)(int m, int n, int k, int a_distance, bool a_turned, int b_distance, int c_distance);
};

/// Of the process. Units that are built with LIBXSMM put its kernels here, so that all others, which are the same code
/// with and without it, have them too.
inline std::atomic<Kernels const*>& process_kernels() {
  static std::atomic<Kernels const*> kernels = nullptr;
  return kernels;
}

}  // namespace fulgurite::libtorch::native

#ifdef FULGURITE_HAS_LIBXSMM
#include <libxsmm.h>

namespace fulgurite::libtorch::native {

inline Kernel libxsmm_product(int m, int n, int k, int a_distance, bool a_turned, int b_distance, int c_distance) {
  float const one = 1, zero = 0;
  int const flags = a_turned ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  return libxsmm_smmdispatch(n, m, k, &b_distance, &a_distance, &c_distance, &one, &zero, &flags, nullptr);
}
inline constexpr Kernels libxsmm_kernels{"LIBXSMM", &libxsmm_product};
inline bool const libxsmm_is_here = [] {
  process_kernels() = &libxsmm_kernels;
  return true;
}();

}  // namespace fulgurite::libtorch::native
#endif
