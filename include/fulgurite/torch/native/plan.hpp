#pragma once
// How one product is cut into calls of small kernels: the inner length into blocks and columns into strips, which
// decides the bits; rows into panels, which does not.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch::native {

// Where the kernels of small products come from: LIBXSMM, where the program is built with it.

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
std::atomic<Kernels const*>& process_kernels();

}  // namespace fulgurite::libtorch::native

#ifdef FULGURITE_HAS_LIBXSMM
namespace fulgurite::libtorch::native {

Kernel libxsmm_product(int m, int n, int k, int a_distance, bool a_turned, int b_distance, int c_distance);
inline constexpr Kernels libxsmm_kernels{"LIBXSMM", &libxsmm_product};
inline bool const libxsmm_is_here = [] {
  process_kernels() = &libxsmm_kernels;
  return true;
}();

}  // namespace fulgurite::libtorch::native
#endif

namespace fulgurite::libtorch::native {

/// c[i] = d[i] + c[i] for n numbers; with d == nullptr zeros are added. The sums are the same on every processor; only
/// how many are made at once differs, which compilers do not choose at the optimization that users choose.
void add_to(float* c, float const* d, std::int64_t n);

/// A matrix whose columns follow each other, `distance` apart, is written so that its rows do.
void turn(float* to, float const* from, std::int64_t rows, std::int64_t columns, std::int64_t distance);

/// f(i) for all i from 0 to n, each once, on as many threads as LibTorch may use. at::parallel_for is a template that
/// runs on one thread where the program that includes it is compiled without OpenMP; LibTorch's own loop over the
/// elements of a tensor is compiled with it.
template <class F>
void on_threads(std::int64_t n, F const& f) {
  if (n == 1 || at::get_num_threads() == 1 || at::in_parallel_region()) {
    for (std::int64_t i = 0; i != n; ++i) f(i);
    return;
  }
  at::TensorBase const places = at::detail::empty_cpu({n}, at::kByte);
  auto const* const begin = static_cast<char const*>(places.const_data_ptr());
  auto walk = at::TensorIterator::borrowing_nullary_op(places);
  // The form with rows: the one without is wrapped by LibTorch in a copy of the pointers, of which g++ 12 says at -O2
  // that it may be read before it is written.
  walk.for_each(
      [&](char** data, std::int64_t const* strides, std::int64_t size, std::int64_t rows) {
        for (std::int64_t row = 0; row != rows; ++row) {
          char const* const first = data[0] + row * strides[1];
          for (std::int64_t i = 0; i != size; ++i) f(first + i * strides[0] - begin);
        }
      },
      1);
}

// One matrix product as memory shows it: sizes, strides, threads, and what happens to it on its way into the result.

enum class Epilogue : std::uint8_t {
  none,       ///< C = A B
  row,        ///< C = row + A B, the same row everywhere
  onto,       ///< C = C + A B
  zero_plus,  ///< C = 0 + A B, which differs from A B where that is -0
  then_onto,  ///< C = C + (A B), the product summed first; `onto` adds its blocks in turn
};

/// A is m x k, B is k x n, C is m x n and contiguous. All that decides LibTorch's bits beside the values is a member.
struct ProductShape {
  std::int64_t batch = 0;  ///< 0: plain matrices, otherwise that many of each
  std::int64_t m = 0, n = 0, k = 0;
  std::array<std::int64_t, 3> a = {}, b = {};  ///< strides: from matrix to matrix, from row to row, within a row
  std::array<std::uint8_t, 3> beyond = {};     ///< bytes that A, B and C begin past a multiple of 64
  Epilogue epilogue = Epilogue::none;
  int threads = 1;
  bool operator==(ProductShape const&) const = default;

  std::int64_t matrices() const { return batch == 0 ? 1 : batch; }
  std::int64_t work() const;

  /// As it is written in accounts: rows, columns and inner length.
  std::string text() const;
};

struct ProductHash {
  std::size_t operator()(ProductShape const& shape) const;
};

/// How the rows of a matrix of this shape follow each other: one after the other (`distance` apart), or as columns do.
struct Order {
  bool turned;
  std::int64_t distance;
};
std::optional<Order> order_of(std::int64_t rows, std::int64_t columns, std::array<std::int64_t, 3> const& strides);

std::uint8_t beyond(void const* where);

/// Dense numbers of the CPU in single precision, as they are: no flag says that they are conjugated or negated.
bool is_plain_float(at::Tensor const& tensor);

/// Of mm(A, B) and bmm(A, B), where A and B lie in one of the two orders; C is to be contiguous and to begin `c_beyond`
/// bytes past a multiple of 64.
std::optional<ProductShape> product_shape(at::Tensor const& a, at::Tensor const& b, Epilogue epilogue,
                                          std::uint8_t c_beyond = 0);

/// Memory of this thread that the next product overwrites, one piece for each use.
float* scratch(std::size_t use, std::int64_t size);

/// The blocks of an inner length. MKL takes whole ones as long as it can and then what is left (on AMD's processors),
/// or halves what is left as soon as it is less than two blocks (on Intel's with AVX-512: 784 is 384, 200 and 200).
struct Blocks {
  std::int64_t length = 0;
  bool halves = false;

  /// The next block, where so many numbers are left.
  std::int64_t next(std::int64_t left) const;
  /// All lengths that occur, at most three: `length` comes first, and a length that is not there is 0.
  std::array<std::int64_t, 3> lengths(std::int64_t whole) const;
};

class Plan {
 public:
  /// Each block of the inner length is summed by itself, from 0, and added to what the blocks before it have made, as
  /// MKL does it. The last `strip` columns, where that is not 0, have kernels of their own. Nullopt: there is no kernel
  /// for a part of it.
  static std::optional<Plan> make(ProductShape const& shape, Blocks const& blocks, std::int64_t strip,
                                  Kernels const& kernels);

  ProductShape const& shape() const { return shape_; }
  /// Of the inner length, the longest block.
  std::int64_t block() const { return lengths_[0]; }

  /// `row`: what Epilogue::row adds.
  void run(float const* a, float const* b, float* c, float const* row = nullptr) const;

 private:
  Plan(ProductShape const& shape, Blocks const& blocks, std::int64_t strip);

  float const* turned(float const* b) const;

  void rows(float const* a, float const* b, float* c, float const* row, std::int64_t count) const;

  void strips(Kernel const (&kernel)[2], float const* b, float const* a, float* c) const;

  static constexpr std::int64_t cached = 4096;            // numbers, of C or of a sum
  static constexpr std::int64_t worth_threads = 1 << 20;  // multiplications: some ten microseconds of one core

  ProductShape shape_;
  Order a_, b_;
  Blocks blocks_;
  std::array<std::int64_t, 3> lengths_;
  std::int64_t strip_, panel_;
  int threads_;
  Kernel kernel_[2][3][2] = {};  ///< for the rows of a panel, those of the last one; each length; both strips
};

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/plan.ipp>
#endif
