#pragma once
// Matrix products by LIBXSMM with LibTorch's bits: which are certified, and which of those are worth it. Programs use
// matmul_scope.hpp.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/plan.hpp>

namespace fulgurite::libtorch::native {

// The same product by LibTorch's own kernels, without any kernels that were registered in front of them.

/// `c` is contiguous; for Epilogue::onto and then_onto it holds the numbers to add to. `row`: the row that
/// Epilogue::row and then_row add.
void product_by_libtorch(Epilogue epilogue, at::Tensor const& a, at::Tensor const& b, at::Tensor const& c,
                         at::Tensor const& row);

// Tests whether small kernels give LibTorch's exact bits for a product, and with which blocks, before they are used.

/// The input of a product. `start`: the row of Epilogue::row and then_row, or the content of C before Epilogue::onto
/// and then_onto.
struct Operands {
  float const *a, *b, *start = nullptr;
};

/// Test values: as they come, sparse as after a relu, so small or so large that sums leave the range, with infinities
/// and zeros, with NaN (but without infinities: which of two kinds of NaN a sum keeps depends on the order of its
/// terms).
enum class Draw : std::uint8_t { normal, again, sparse, tiny, huge, infinite, nan };
inline constexpr std::array draws{Draw::normal, Draw::again,    Draw::sparse, Draw::tiny,
                                  Draw::huge,   Draw::infinite, Draw::nan};

/// A private random generator, so that no other generator advances.
class Numbers {
 public:
  /// `added`: products are added to them. They are then as large as the products: next to larger ones, errors in tiny
  /// products would not be visible.
  void fill(float* to, std::int64_t size, Draw draw, bool added = false);

 private:
  std::uint64_t next();
  std::uint64_t state_ = 88172645463325252U;
};

// The current scope for matrix products on this thread.

Matmul on_this_thread();

// The certified products of the process: each shape is tested once.

class Verdicts : Pinned {
 public:
  /// Without kernels LibTorch computes every product. `tests`: plans must have LibTorch's bits; otherwise they sum in
  /// the order of fastest_blocks.
  explicit Verdicts(ProductKernels const* kernels, bool tests = true);

  /// Those of Matmul::fastest are separate.
  static Verdicts& of_process(Matmul how = Matmul::certified);

  /// The plan of a certified product; nullptr if LibTorch has to compute it. The first call for a shape tests it, with
  /// these values among others. Plans live as long as this object.
  Plan const* find(ProductShape const& shape, Operands const& given);

  struct Count {
    std::size_t certified = 0, left = 0;
  };
  Count count() const;

  /// A report for users: how many products LIBXSMM or LibTorch computes, in which blocks, and for which no block fits.
  /// Products that differ only in their memory layout count as one, as their text is the same, or as two if only one of
  /// them is certified.
  std::string account() const;

 private:
  struct Seen {
    std::uint64_t of = 0;
    ProductShape shape = {};
    Plan const* plan = nullptr;
  };
  Plan const* search(ProductShape const& shape, Operands const& given);

  ProductKernels const* kernels_;
  bool tests_;
  std::uint64_t number_;
  mutable std::mutex mutex_;
  std::unordered_map<ProductShape, std::unique_ptr<Plan const>, ProductHash> all_;
};

// Where LIBXSMM's kernels are used: a rule of shape and processor, never a measurement, whose result could change from
// day to day.

/// The kinds of processors that the rule distinguishes. MKL uses only AVX2 on AMD's.
enum class Processor : std::uint8_t {
  other,
  amd_in_halves,  ///< Zen 4: AVX-512 as two halves of 256 bits, so that MKL reaches the same peak
  amd_whole,      ///< Zen 5: all 512 bits at once
  intel_bf16,     ///< Sapphire Rapids and newer, recognised by AVX-512 with BF16: MKL reaches the core's peak
};

/// The processor of this machine. AMD's families: 25 is Zen 4 if it has AVX-512, 26 is Zen 5.
Processor this_processor();

/// Up to this number of multiplications, the overhead of a call of MKL exceeds the time of the multiplications: some
/// 0.6 microseconds, in which a core does 27,000 of them.
inline constexpr std::int64_t small_product = 16384;

/// Up to this number of multiplications in one matrix, the overhead of a call is measurable on Intel's processors.
inline constexpr std::int64_t seen_on_intel = 1 << 20;

/// True if the rule may accept these sizes. It is checked before a shape is made, so that other products cost nothing.
bool may_be_faster(at::Tensor const& a, at::Tensor const& b, Processor on = this_processor());

/// True for small products on every processor. For larger ones on Intel's older processors, on AMD's without AVX-512
/// and on those of other makers, MKL is assumed to be as fast as LIBXSMM.
bool is_faster(ProductShape const& shape, Processor on = this_processor());

// Matrix products of steps that are not replayed: kernels in front of LibTorch's own, which check whether a scope is
// open on their thread.

/// The blocks of Matmul::fastest, measured on Intel's processors: longer ones leave the second-level cache, shorter
/// ones write the result more often, which costs a twentieth at 192.
inline constexpr Blocks fastest_blocks{512, true};

/// The plan for the current product; nullptr if LibTorch has to compute it. Inside a parallel region LibTorch does not
/// start threads for products, and its results there are not the certified ones.
Plan const* plan_of(std::optional<ProductShape> const& shape, Operands const& given, Matmul how);

/// How to compute a product on this thread; the cheapest checks come first.
Matmul asked_for(at::Tensor const& a, at::Tensor const& b);

float const* numbers(at::Tensor const& tensor);

/// How `start` is added to a product of this shape, if that is one of the two supported ways: as a row, or as a whole
/// matrix.
std::optional<Epilogue> epilogue_of(at::Tensor const& start, at::Tensor const& a, at::Tensor const& b,
                                    at::Scalar const& beta, at::Scalar const& alpha);

at::Tensor new_result(ProductShape const& shape);

at::Tensor computed(Plan const& plan, Operands const& given);

inline constexpr c10::DispatchKeySet below_products(c10::DispatchKeySet::FULL_AFTER, product_key);

/// The kernels of the two operators that only multiply, and of the two that add; `Own` is LibTorch's. Batches and
/// matrices differ in their arguments.
template <class Own>
at::Tensor multiplied(c10::DispatchKeySet keys, at::Tensor const& a, at::Tensor const& b) {
  if (auto const how = asked_for(a, b); how != Matmul::libtorch)
    if (auto const shape = product_shape(a, b, Epilogue::none)) {
      Operands const given{numbers(a), numbers(b)};
      if (auto const* plan = plan_of(shape, given, how)) return computed(*plan, given);
    }
  return Own::redispatch(keys & below_products, a, b);
}
template <class Own>
at::Tensor multiplied_and_added(c10::DispatchKeySet keys, at::Tensor const& start, at::Tensor const& a,
                                at::Tensor const& b, at::Scalar const& beta, at::Scalar const& alpha) {
  if (auto const how = asked_for(a, b); how != Matmul::libtorch)
    if (auto const epilogue = epilogue_of(start, a, b, beta, alpha))
      if (auto const shape = product_shape(a, b, *epilogue)) {
        Operands const given{numbers(a), numbers(b), numbers(start)};
        if (auto const* plan = plan_of(shape, given, how)) return computed(*plan, given);
      }
  return Own::redispatch(keys & below_products, start, a, b, beta, alpha);
}

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/products.ipp>
#endif
