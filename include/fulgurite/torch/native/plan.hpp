#pragma once
// How one product is divided into calls of small kernels: the inner length into blocks and the columns into strips,
// which affects the bits; the rows into panels, which does not.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch::native {

// Where the kernels of small products come from: LIBXSMM, if the program is built with it.

/// C = A B for one shape, all three row-major; A may be transposed. B is the first argument, since the library is
/// column-major.
using Kernel = void (*)(float const* b, float const* a, float* c, ...);

struct ProductKernels {
  char const* name;
  /// Returns nullptr if there is no kernel for this shape. Distances are those between rows or, for a transposed A,
  /// between columns.
  Kernel (*product)(int m, int n, int k, int a_distance, bool a_turned, int b_distance, int c_distance);
};

/// The kernels of the process. Units that are built with LIBXSMM store its kernels here, so that all other units, whose
/// code is the same with and without it, have them too.
std::atomic<ProductKernels const*>& process_kernels();

#ifdef FULGURITE_HAS_LIBXSMM
Kernel libxsmm_product(int m, int n, int k, int a_distance, bool a_turned, int b_distance, int c_distance);
inline constexpr ProductKernels libxsmm_kernels{"LIBXSMM", &libxsmm_product};
inline bool const libxsmm_is_here = [] {
  process_kernels() = &libxsmm_kernels;
  return true;
}();
#endif

/// c[i] = d[i] + c[i] for n numbers; for d == nullptr zeros are added. The sums are the same on every processor; only
/// the number of additions at once differs.
void add_to(float* c, float const* d, std::int64_t n);

/// Writes a column-major matrix, whose columns are `distance` apart, in row-major order, with rows `to_distance` apart.
void turn(float* to, float const* from, std::int64_t rows, std::int64_t columns, std::int64_t distance,
          std::int64_t to_distance);

// One matrix product, described by its memory: sizes, strides, threads, and how the result is combined with other
// numbers.

enum class Epilogue : std::uint8_t {
  none,       ///< C = A B
  row,        ///< C = row + A B, with the same row everywhere
  onto,       ///< C = C + A B
  zero_plus,  ///< C = 0 + A B, which differs from A B if that is -0
  then_onto,  ///< C = C + (A B), the product summed first; `onto` adds its blocks one by one
  then_row,   ///< C = row + (A B), the product summed first
};

/// A is m x k, B is k x n, C is m x n and contiguous. The members are everything besides the values that affects
/// LibTorch's bits.
struct ProductShape {
  std::int64_t batch = 0;  ///< 0: plain matrices, otherwise the number of matrices in each batch
  std::int64_t m = 0, n = 0, k = 0;
  std::array<std::int64_t, 3> a = {}, b = {};  ///< strides: between matrices, between rows, within a row
  std::array<std::uint8_t, 3> beyond = {};     ///< offsets in bytes of A, B and C from a multiple of 64
  Epilogue epilogue = Epilogue::none;
  int threads = 1;
  bool operator==(ProductShape const&) const = default;

  std::int64_t matrices() const { return batch == 0 ? 1 : batch; }
  std::int64_t work() const;                                ///< multiplications
  bool worth_threads() const { return work() >= 1 << 18; }  ///< some five microseconds on one core
  int threads_used() const { return worth_threads() ? threads : 1; }

  /// The text for accounts: rows, columns and inner length.
  std::string text() const;
};

struct ProductHash {
  std::size_t operator()(ProductShape const& shape) const;
};

/// The memory order of a matrix: row-major with rows `distance` apart, or column-major.
struct Order {
  bool turned;
  std::int64_t distance;
};
std::optional<Order> order_of(std::int64_t rows, std::int64_t columns, std::array<std::int64_t, 3> const& strides);

std::uint8_t beyond(void const* where);

/// True for a dense float32 tensor on the CPU without conjugation or negation flags.
bool is_plain_float(at::Tensor const& tensor);

/// The shape of mm(A, B) or bmm(A, B) if A and B have one of the two orders. C is assumed contiguous, `c_beyond` bytes
/// after a multiple of 64.
std::optional<ProductShape> product_shape(at::Tensor const& a, at::Tensor const& b, Epilogue epilogue,
                                          std::uint8_t c_beyond = 0);

/// Memory of this thread, separate for each use, which the next product overwrites.
float* scratch(std::size_t use, std::int64_t size);

/// The blocks of an inner length. MKL takes whole blocks as long as it can and then the remainder (on AMD's
/// processors), or halves the remainder as soon as it is less than two blocks (on Intel's with AVX-512: 784 is 384, 200
/// and 200).
struct Blocks {
  std::int64_t length = 0;
  bool halves = false;

  /// The length of the next block if `left` numbers remain.
  std::int64_t next(std::int64_t left) const;
  /// All lengths that occur, at most three: `length` comes first; 0 stands for no length.
  std::array<std::int64_t, 3> lengths(std::int64_t whole) const;
};

class Plan {
 public:
  /// Sums each block of the inner length separately, from 0, and adds it to the sum of the blocks before it, like MKL.
  /// The last `strip` columns have kernels of their own, unless `strip` is 0. Returns nullopt if there is no kernel for
  /// a part of the product.
  static std::optional<Plan> make(ProductShape const& shape, Blocks const& blocks, std::int64_t strip,
                                  ProductKernels const& kernels);

  ProductShape const& shape() const { return shape_; }
  /// The longest block of the inner length.
  std::int64_t block() const { return lengths_[0]; }

  /// `row`: the row that Epilogue::row and then_row add.
  void run(float const* a, float const* b, float* c, float const* row = nullptr) const;

 private:
  Plan(ProductShape const& shape, Blocks const& blocks, std::int64_t strip);

  float const* turned(float const* b) const;

  void rows(float const* a, float const* b, float* c, float const* row, std::int64_t count) const;

  void add_row(float* c, float const* row, std::int64_t count) const;

  void strips(Kernel const (&kernel)[2], float const* b, float const* a, float* c) const;

  /// A transposed B has a gap behind rows of a multiple of 2 KB: otherwise the numbers of a column share a few sets of
  /// the first-level cache, and evict each other.
  static constexpr std::int64_t with_gap(std::int64_t n) { return n % 512 == 0 ? n + 16 : n; }

  static constexpr std::int64_t cached = 4096;  // numbers of C or of a sum that stay in the cache

  ProductShape shape_;
  Order a_, b_;
  Blocks blocks_;
  std::array<std::int64_t, 3> lengths_;
  std::int64_t strip_, panel_;
  std::int64_t b_next_;  ///< from one row of B, transposed or not, to the next
  int threads_;
  Kernel kernel_[2][3][2] = {};  ///< indices: full panel or last panel; length; strip
};

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/plan.ipp>
#endif
