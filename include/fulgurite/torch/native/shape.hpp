#pragma once
// One matrix product as memory shows it: sizes, strides, threads, and what happens to it on its way into the result.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch::native {

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
  std::int64_t work() const { return matrices() * m * n * k; }

  /// As it is written in accounts: rows, columns and inner length.
  FULGURITE_BULK std::string text() const {
    auto const with = [](char const* what) { return std::string(what); };
    return (batch == 0 ? "" : std::to_string(batch) + " of ") + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k) + with(a[2] == 1 ? "" : ", A transposed") + with(b[2] == 1 ? "" : ", B transposed") +
           with(epilogue == Epilogue::row         ? ", with a bias"
                : epilogue == Epilogue::zero_plus ? ", added to zero"
                : epilogue == Epilogue::onto      ? ", added to the result"
                : epilogue == Epilogue::then_onto ? ", then added to a gradient"
                                                  : "") +
           (threads == 1 ? "" : ", " + std::to_string(threads) + " threads");
  }
};

struct ProductHash {
  std::size_t operator()(ProductShape const& shape) const {
    std::uint64_t all = 0x9e3779b97f4a7c15U;
    for (std::int64_t const number : {shape.batch, shape.m, shape.n, shape.k, shape.a[1], shape.a[2], shape.b[1],
                                      shape.b[2], std::int64_t(shape.epilogue) + 8 * std::int64_t(shape.threads)})
      all = (all ^ static_cast<std::uint64_t>(number)) * 0xff51afd7ed558ccdU;
    return static_cast<std::size_t>(all ^ (all >> 32));
  }
};

/// How the rows of a matrix of this shape follow each other: one after the other (`distance` apart), or as columns do.
struct Order {
  bool turned;
  std::int64_t distance;
};
inline std::optional<Order> order_of(std::int64_t rows, std::int64_t columns,
                                     std::array<std::int64_t, 3> const& strides) {
  if (strides[2] == 1 && strides[1] >= columns) return Order{false, strides[1]};
  if (strides[1] == 1 && strides[2] >= rows) return Order{true, strides[2]};
  return std::nullopt;
}

inline std::uint8_t beyond(void const* where) {
  return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(where) % 64);
}

/// Dense numbers of the CPU in single precision, as they are: no flag says that they are conjugated or negated.
inline bool is_plain_float(at::Tensor const& tensor) {
  static constexpr c10::DispatchKeySet flags({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                              c10::DispatchKey::ZeroTensor, c10::DispatchKey::Python});
  return tensor.defined() && tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided &&
         !tensor.key_set().has_any(flags) && !tensor.has_names();
}

/// Of mm(A, B) and bmm(A, B), where A and B lie in one of the two orders; C is to be contiguous and to begin `c_beyond`
/// bytes past a multiple of 64.
inline std::optional<ProductShape> product_shape(at::Tensor const& a, at::Tensor const& b, Epilogue epilogue,
                                                 std::uint8_t c_beyond = 0) {
  auto const dims = a.dim();
  if (!is_plain_float(a) || !is_plain_float(b) || (dims != 2 && dims != 3) || b.dim() != dims) return std::nullopt;
  auto const as = a.sizes(), bs = b.sizes(), ax = a.strides(), bx = b.strides();
  auto const r = static_cast<std::size_t>(dims - 2), c = r + 1;
  ProductShape shape;
  if (dims == 3) {
    if (as[0] != bs[0] || as[0] == 0) return std::nullopt;
    shape.batch = as[0];
    shape.a[0] = ax[0];
    shape.b[0] = bx[0];
  }
  shape.m = as[r];
  shape.k = as[c];
  shape.n = bs[c];
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || bs[r] != shape.k) return std::nullopt;
  shape.a[1] = ax[r];
  shape.a[2] = ax[c];
  shape.b[1] = bx[r];
  shape.b[2] = bx[c];
  auto const x = order_of(shape.m, shape.k, shape.a), y = order_of(shape.k, shape.n, shape.b);
  constexpr std::int64_t most = std::numeric_limits<int>::max() / 4;
  if (!x || !y || x->distance > most || y->distance > most || shape.m > most || shape.n > most || shape.a[0] < 0 ||
      shape.b[0] < 0)
    return std::nullopt;
  shape.beyond = {beyond(a.const_data_ptr()), beyond(b.const_data_ptr()), c_beyond};
  shape.epilogue = epilogue;
  shape.threads = at::get_num_threads();
  return shape;
}

}  // namespace fulgurite::libtorch::native
