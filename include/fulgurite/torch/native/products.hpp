#pragma once
// Matrix products by LIBXSMM with LibTorch's bits: which are certified, and which of those are worth it.
// matmul_scope.hpp is what a program opens.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/plan.hpp>

namespace fulgurite::libtorch::native {

// The same product by LibTorch's own kernels, below everything that somebody may have put before them.

/// `c` is contiguous; with Epilogue::onto and then_onto it holds what is added to. `row`: what Epilogue::row adds.
void product_by_libtorch(Epilogue epilogue, at::Tensor const& a, at::Tensor const& b, at::Tensor const& c,
                         at::Tensor const& row);

// Whether small kernels give LibTorch's very bits for a product, and in which blocks: tried before they are used.

/// What a product is computed from. `start`: the row of Epilogue::row, or what C holds before Epilogue::onto and
/// Epilogue::then_onto.
struct Operands {
  float const *a, *b, *start = nullptr;
};

/// Numbers that begin as many bytes past a multiple of 64 as those that they stand for: LibTorch's kernels may add in
/// another order elsewhere.
class Sample {
 public:
  Sample(std::int64_t size, std::uint8_t beyond);
  Sample(Sample const&) = delete;
  Sample& operator=(Sample const&) = delete;
  float* data() { return begin_; }
  std::int64_t size() const { return size_; }
  void take(float const* from);
  bool same_bits(Sample const& other) const;

 private:
  std::int64_t size_;
  std::vector<float> all_;
  float* begin_;
};

/// Values to try: as they come, sparse as after a relu, so small or so large that sums leave the range, with infinities
/// beside zeros, with NaN (not beside infinities: which of two kinds of NaN a sum keeps depends on the order of its
/// terms).
enum class Draw : std::uint8_t { normal, again, sparse, tiny, huge, infinite, nan };
inline constexpr std::array draws{Draw::normal, Draw::again,    Draw::sparse, Draw::tiny,
                                  Draw::huge,   Draw::infinite, Draw::nan};

/// Its own numbers, so that nobody's generator moves.
class Numbers {
 public:
  void fill(Sample& sample, Draw draw);
  void fill(float* to, std::int64_t size, Draw draw);
  /// What is added to products is as large as they are: beside more, what becomes of tiny ones could not be seen.
  void fill_start(Sample& sample, Draw draw);

 private:
  static float scale_of(Draw draw);
  void fill(float* to, std::int64_t size, Draw draw, float scale);

  /// Near enough to a normal distribution: a sum of four, with all its bits in use.
  static float normal(std::uint64_t bits);
  std::uint64_t next();
  std::uint64_t state_ = 88172645463325252U;
};

class Certifier {
 public:
  explicit Certifier(ProductShape const& shape);

  /// The plan that gives LibTorch's bits on these values and on all draws; nullopt: none does.
  std::optional<Plan> search(Operands const& given, Kernels const& kernels);

 private:
  /// LIBXSMM with AVX-512 takes 64 columns at a time, and sums up to 16 that remain as two chains, which MKL does not.
  /// Two strips, neither of which leaves 1 to 16 columns, keep MKL's order of summation.
  static constexpr std::int64_t last_strip = 48;

  void take(Operands const& given);
  /// On the given values, which are those that were taken last, and on all draws.
  bool same_everywhere(Plan const& plan, Operands const& given);
  static std::int64_t span(std::int64_t step, std::int64_t count) { return step * (count - 1); }
  std::int64_t last(std::array<std::int64_t, 3> const& strides, std::int64_t rows, std::int64_t columns) const;
  bool holds() const;
  bool starts() const;

  at::Tensor tensor(Sample& sample, std::int64_t rows, std::int64_t columns,
                    std::array<std::int64_t, 3> const& strides) const;

  void reference();
  bool same(Plan const& plan);
  bool same_on_draws(Plan const& plan);

  ProductShape shape_;
  Sample a_, b_, start_, theirs_, ours_;
};

// Whether a scope for matrix products is open on this thread, and what it says.

Matmul on_this_thread();

// Which products are certified, of the whole process: each shape is tried once.

class Verdicts {
 public:
  /// Without kernels every product is LibTorch's.
  explicit Verdicts(Kernels const* kernels);
  Verdicts(Verdicts const&) = delete;
  Verdicts& operator=(Verdicts const&) = delete;

  static Verdicts& of_process();

  /// The plan of a certified product; nullptr: LibTorch's. The first time that a shape is asked for it is tried, on
  /// these values among others. Plans stay as long as the verdicts.
  Plan const* find(ProductShape const& shape, Operands const& given);

  struct Count {
    std::size_t certified = 0, left = 0;
  };
  Count count() const;

  /// For a person: how many products are whose, in which blocks, and which have no block that fits. Those that differ
  /// only in where their numbers lie are one, as their text is, or two, where one of them alone is certified.
  std::string account() const;

 private:
  struct Seen {
    std::uint64_t of = 0;
    ProductShape shape = {};
    Plan const* plan = nullptr;
  };
  /// So that the threads of a step need no lock. No array: compilers write out how each of its parts begins.
  static std::vector<Seen>& last_seen();
  static std::atomic<std::uint64_t>& made();

  Plan const* search(ProductShape const& shape, Operands const& given);

  Kernels const* kernels_;
  std::uint64_t number_;
  mutable std::mutex mutex_;
  std::unordered_map<ProductShape, std::unique_ptr<Plan const>, ProductHash> all_;
};

// Where LIBXSMM's kernels are used: a rule of shape and processor, never a measurement, which could say one thing today
// and another tomorrow.

/// Of a processor, what the rule asks. MKL stays with AVX2 on AMD's.
enum class Processor : std::uint8_t {
  other,
  amd_in_halves,  ///< Zen 4: AVX-512 in two turns of 256 bits, so that AVX2 multiplies as fast
  amd_whole,      ///< Zen 5: all 512 bits at once
  intel_bf16,     ///< Sapphire Rapids and newer, which are known by AVX-512 with BF16: MKL reaches the core's peak
};

/// The processor at hand. AMD's families: 25 is Zen 4 where there is AVX-512, 26 is Zen 5.
Processor this_processor();

/// Up to here a call of MKL's takes longer than the multiplications themselves: some 0.6 microseconds, in which a core
/// does 27,000 of them.
inline constexpr std::int64_t small_product = 16384;

/// What was measured on Zen 5 (`tools/dev bench products`): twice as fast from 8 rows and 16 columns on, where B is
/// transposed, and so copied first, too.
bool pays_whole(ProductShape const& shape);

/// What was measured on Zen 4, where both reach the same peak and LIBXSMM wins a tenth, for widths of whole registers.
/// A copy of B pays for many rows and short inner lengths alone there, and a bias for long ones, which MKL adds without
/// another pass. What is added to after the product is another pass of both.
bool pays_in_halves(ProductShape const& shape);

/// Up to so many multiplications of one matrix a call's own time can be seen beside them on Intel's processors.
inline constexpr std::int64_t seen_on_intel = 1 << 20;

/// What was measured on Intel's Granite Rapids, where both reach the same peak, so that only shorter calls and sums
/// that are still in the first cache win: a tenth at a million multiplications, half as much again at a hundred
/// thousand. Turning B first costs as much as is won where it is wide, unless a bias is added, for which LibTorch
/// copies it first.
bool pays_on_intel(ProductShape const& shape);

/// Sizes that the rule may say yes to, asked before a shape is made: what is left alone should cost nothing.
bool may_be_faster(at::Tensor const& a, at::Tensor const& b, Processor on = this_processor());

/// Small products everywhere. On older processors of Intel's, on AMD's without AVX-512 and on those of other makers,
/// MKL is taken to be as fast as LIBXSMM for larger ones.
bool is_faster(ProductShape const& shape, Processor on = this_processor());

// Matrix products of steps that run as they are written: kernels before LibTorch's own, which look whether a scope is
// open on their thread.

/// The plan for a product at hand; nullptr: LibTorch's. LibTorch does not let products start threads where threads run
/// already, and what it does there is not what is tried here.
Plan const* plan_of(std::optional<ProductShape> const& shape, Operands const& given, Matmul how);

/// How a product on this thread is to be computed, from what costs least to ask.
Matmul asked_for(at::Tensor const& a, at::Tensor const& b);

float const* numbers(at::Tensor const& tensor);

/// How `start` is added to a product of this shape, where that is one of the two ways that are known: as a row, or as a
/// whole.
std::optional<Epilogue> epilogue_of(at::Tensor const& start, at::Tensor const& a, at::Tensor const& b,
                                    at::Scalar const& beta, at::Scalar const& alpha);

at::Tensor new_result(ProductShape const& shape);

at::Tensor computed(Plan const& plan, Operands const& given);

inline constexpr c10::DispatchKeySet below_products(c10::DispatchKeySet::FULL_AFTER, product_key);

/// The two operators that only multiply, and the two that add: `Own` is LibTorch's. Batches and matrices differ by what
/// they are given.
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
