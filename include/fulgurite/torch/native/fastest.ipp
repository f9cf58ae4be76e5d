#pragma once
// The bodies of torch/native/fastest.hpp.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <tuple>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/mkldnn_rnn_layer_backward_ops.h>
#include <ATen/ops/mkldnn_rnn_layer_ops.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/fastest.hpp>
#include <fulgurite/torch/native/products.hpp>

namespace fulgurite::libtorch::native {

namespace passes {

/// x becomes its exponential, 2^n times a polynomial of what n leaves; numbers below -87 count as that, those above 88
/// do not occur.
template <class Numbers>
[[gnu::always_inline]] inline void exponential(Numbers& x) {
  using Whole = Vector<std::int32_t, sizeof(Numbers)>;
  Numbers const power = x < -87.0F ? Numbers{} - 87.0F : x;
  constexpr float rounding = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest whole number in the last bits
  Numbers const shifted = power * 1.44269504F + rounding, n = shifted - rounding;
  Numbers const r = (power - n * 0.693359375F) + n * 2.12194440e-4F;
  Numbers e = r * 1.9875691500e-4F + 1.3981999507e-3F;
  e = e * r + 8.3334519073e-3F;
  e = e * r + 4.1665795894e-2F;
  e = e * r + 1.6666665459e-1F;
  e = e * r + 5.0000001201e-1F;
  e = e * r * r + r + 1.0F;
  Whole bits, exponent;
  std::memcpy(&bits, &e, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;
  std::memcpy(&e, &bits, sizeof e);
  x = x == x ? e : x;
}

/// One vector of gelu_backward(). Phi(x) is 1 - q(t) exp(-x^2 / 2) for x >= 0, where t = 1 / (1 + p x) and q
/// is a polynomial (Abramowitz and Stegun, 7.1.26).
template <class Numbers>
[[gnu::always_inline]] inline void gelu_vector(float* to, float const* from, float const* gradient) {
  Numbers x, by;
  std::memcpy(&x, from, sizeof x);
  std::memcpy(&by, gradient, sizeof by);
  Numbers const size = x < 0.0F ? -x : x;
  Numbers e = x * x * -0.5F;
  exponential(e);
  Numbers const t = 1.0F / (size * 0.231641888F + 1.0F);
  Numbers q = t * 0.5307027145F - 0.7265760135F;
  q = q * t + 0.7107068705F;
  q = q * t - 0.142248368F;
  q = q * t + 0.127414796F;
  Numbers const tail = q * t * e, whole = x < 0.0F ? tail : 1.0F - tail;
  Numbers const result = by * (whole + x * e * 0.3989422804F);
  std::memcpy(to, &result, sizeof result);
}

template <class Numbers>
[[gnu::always_inline]] inline void gelu(float* to, float const* x, float const* gradient, std::int64_t n) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) gelu_vector<Numbers>(to + i, x + i, gradient + i);
  if (i == n) return;
  float last[3][width] = {};  // the rest as a vector, so that the bits do not depend on where a thread begins
  auto const bytes = static_cast<std::size_t>(n - i) * sizeof(float);
  std::memcpy(last[0], x + i, bytes);
  std::memcpy(last[1], gradient + i, bytes);
  gelu_vector<Numbers>(last[2], last[0], last[1]);
  std::memcpy(to + i, last[2], bytes);
}

/// The rows of scores of one head, `distance` apart, which is a multiple of 16 and has room for all keys.
struct Scores {
  float* all;
  std::int64_t rows, keys, distance;
  std::int64_t
      first;  ///< the number of the first row, for causal attention, where row i has i + 1 keys; -1: not causal
  float scale;
  float* sums;  ///< for each row the logarithm of its sum of exponentials, `sums_apart` apart
  std::int64_t sums_apart;

  std::int64_t keys_of(std::int64_t row) const { return first < 0 ? keys : first + row + 1; }
};

/// One vector of the n numbers of a row, from the i-th on, with `other` in place of those beyond n.
template <class Numbers>
[[gnu::always_inline]] inline void load(Numbers& x, float const* row, std::int64_t i, std::int64_t n, float other) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  std::memcpy(&x, row + i, sizeof x);
  if (i + width <= n) return;
  static constexpr float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Numbers lane;
  std::memcpy(&lane, numbers, sizeof lane);
  x = lane < static_cast<float>(n - i) ? x : Numbers{} + other;
}

/// row[i] = exp(row[i] * scale - minus) for the first n numbers, and 0 for the others; returns the sum.
template <class Numbers>
[[gnu::always_inline]] inline float exponentials(float* row, std::int64_t n, std::int64_t all, float scale,
                                                 float minus) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  Numbers x, sums{};
  for (std::int64_t i = 0; i < all; i += width) {
    x = Numbers{};
    if (i < n) {
      std::memcpy(&x, row + i, sizeof x);
      x = x * scale - minus;
      exponential(x);
      std::memcpy(row + i, &x, sizeof x);
      load(x, row, i, n, 0);
    }
    sums += x;
    std::memcpy(row + i, &x, sizeof x);
  }
  float sum = 0;
  for (std::int64_t i = 0; i != width; ++i) sum += sums[static_cast<std::size_t>(i)];
  return sum;
}

/// Each row becomes its softmax.
template <class Numbers>
[[gnu::always_inline]] inline void softmax(Scores const& scores) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  for (std::int64_t r = 0; r != scores.rows; ++r) {
    auto* const row = scores.all + r * scores.distance;
    auto const n = scores.keys_of(r);
    constexpr float least = -std::numeric_limits<float>::infinity();
    Numbers most = Numbers{} + least, x;
    for (std::int64_t i = 0; i < n; i += width) {
      load(x, row, i, n, least);
      most = x > most ? x : most;
    }
    float largest = most[0];
    for (std::int64_t i = 1; i != width; ++i) largest = std::max(largest, most[static_cast<std::size_t>(i)]);
    float const sum = exponentials<Numbers>(row, n, scores.distance, scores.scale, largest * scores.scale),
                by = 1 / sum;
    for (std::int64_t i = 0; i < n; i += width) {
      std::memcpy(&x, row + i, sizeof x);
      x = x * by;
      std::memcpy(row + i, &x, sizeof x);
    }
    scores.sums[r * scores.sums_apart] = largest * scores.scale + std::log(sum);
  }
}

/// The softmax again, by the sums that it left, and its gradient, in place of that of its results. `out` and
/// `gradient`, of `wide` numbers each row: the result of attention and its gradient.
template <class Numbers>
[[gnu::always_inline]] inline void softmax_backward(Scores const& scores, float* of_results, float const* out,
                                                    std::int64_t out_apart, float const* gradient,
                                                    std::int64_t gradient_apart, std::int64_t wide) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  for (std::int64_t r = 0; r != scores.rows; ++r) {
    auto *const row = scores.all + r * scores.distance, *const to = of_results + r * scores.distance;
    auto const n = scores.keys_of(r);
    exponentials<Numbers>(row, n, scores.distance, scores.scale, scores.sums[r * scores.sums_apart]);
    Numbers x, y, products{};
    for (std::int64_t i = 0; i < wide; i += width) {
      std::memcpy(&x, out + r * out_apart + i, sizeof x);
      std::memcpy(&y, gradient + r * gradient_apart + i, sizeof y);
      products += x * y;
    }
    float mean = 0;
    for (std::int64_t i = 0; i != width; ++i) mean += products[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < scores.distance; i += width) {
      std::memcpy(&x, row + i, sizeof x);
      load(y, to, i, n, 0);
      y = x * (y - mean) * scores.scale;
      std::memcpy(to + i, &y, sizeof y);
    }
  }
}

template <class Numbers>
[[gnu::always_inline]] inline void sigmoid(Numbers& x) {
  Numbers e = x < 0.0F ? x : -x;
  exponential(e);
  Numbers const whole = 1.0F / (e + 1.0F);
  x = x < 0.0F ? e * whole : whole;
}

/// x becomes its hyperbolic tangent: near 0 a polynomial (that of the Cephes library), which keeps the bits that the
/// difference of 1 and an exponential loses there.
template <class Numbers>
[[gnu::always_inline]] inline void tangent(Numbers& x) {
  Numbers const size = x < 0.0F ? -x : x, square = x * x;
  Numbers e = size * -2.0F;
  exponential(e);
  Numbers const far = (1.0F - e) / (e + 1.0F);
  Numbers near = square * -5.70498872745e-3F + 2.06390887954e-2F;
  near = near * square - 5.37397155531e-2F;
  near = near * square + 1.33314422036e-1F;
  near = near * square - 3.33332819422e-1F;
  near = near * square * x + x;
  x = size < 0.625F ? near : x < 0.0F ? -far : far;
}

/// One step of time of an LSTM for all samples, or its gradient. Rows of `gates` and of their gradient have four times
/// `hidden` numbers: of the input gate, of the forget gate, of the new values of the cells, and of the output gate.
struct LstmStep {
  std::int64_t samples, hidden;
  float* gates;         ///< the forward pass turns sums into what the gates let through
  float const* before;  ///< the cells before the step
  float *cells, *tangents;
  float* out;
  float const* of_out = nullptr;  ///< the gradient of `out` itself, in rows that are `of_out_apart` apart; or null
  std::int64_t of_out_apart = 0;
  float const* of_h = nullptr;  ///< the gradient of `out` as the state that the next step has read
  float* of_cells = nullptr;    ///< the gradient of `cells`, which becomes that of `before`
  float* of_gates = nullptr;    ///< the gradient of the sums
};

template <class Numbers>
[[gnu::always_inline]] inline void lstm_vector(LstmStep const& step, std::int64_t row, std::int64_t i) {
  auto const n = step.hidden, at = row * n + i;
  auto* const gates = step.gates + 4 * row * n + i;
  Numbers input, forget, fresh, output, cell;
  std::memcpy(&input, gates, sizeof input);
  std::memcpy(&forget, gates + n, sizeof forget);
  std::memcpy(&fresh, gates + 2 * n, sizeof fresh);
  std::memcpy(&output, gates + 3 * n, sizeof output);
  std::memcpy(&cell, step.before + at, sizeof cell);
  sigmoid(input);
  sigmoid(forget);
  tangent(fresh);
  sigmoid(output);
  cell = forget * cell + input * fresh;
  std::memcpy(gates, &input, sizeof input);
  std::memcpy(gates + n, &forget, sizeof forget);
  std::memcpy(gates + 2 * n, &fresh, sizeof fresh);
  std::memcpy(gates + 3 * n, &output, sizeof output);
  std::memcpy(step.cells + at, &cell, sizeof cell);
  tangent(cell);
  std::memcpy(step.tangents + at, &cell, sizeof cell);
  cell = output * cell;
  std::memcpy(step.out + at, &cell, sizeof cell);
}

template <class Numbers>
[[gnu::always_inline]] inline void lstm_backward_vector(LstmStep const& step, std::int64_t row, std::int64_t i) {
  auto const n = step.hidden, at = row * n + i;
  auto const* const gates = step.gates + 4 * row * n + i;
  auto* const to = step.of_gates + 4 * row * n + i;
  Numbers input, forget, fresh, output, before, tangent, by, of_cell, of_out{};
  std::memcpy(&input, gates, sizeof input);
  std::memcpy(&forget, gates + n, sizeof forget);
  std::memcpy(&fresh, gates + 2 * n, sizeof fresh);
  std::memcpy(&output, gates + 3 * n, sizeof output);
  std::memcpy(&before, step.before + at, sizeof before);
  std::memcpy(&tangent, step.tangents + at, sizeof tangent);
  std::memcpy(&by, step.of_h + at, sizeof by);
  std::memcpy(&of_cell, step.of_cells + at, sizeof of_cell);
  if (step.of_out) std::memcpy(&of_out, step.of_out + row * step.of_out_apart + i, sizeof of_out);
  by = by + of_out;
  of_cell = of_cell + by * output * (1.0F - tangent * tangent);
  Numbers const of_input = of_cell * fresh * input * (1.0F - input),
                of_forget = of_cell * before * forget * (1.0F - forget),
                of_fresh = of_cell * input * (1.0F - fresh * fresh),
                of_output = by * tangent * output * (1.0F - output);
  of_cell = of_cell * forget;
  std::memcpy(to, &of_input, sizeof of_input);
  std::memcpy(to + n, &of_forget, sizeof of_forget);
  std::memcpy(to + 2 * n, &of_fresh, sizeof of_fresh);
  std::memcpy(to + 3 * n, &of_output, sizeof of_output);
  std::memcpy(step.of_cells + at, &of_cell, sizeof of_cell);
}

/// Whole vectors, and what they leave by four numbers: `hidden` is a multiple of 4.
template <class Numbers>
[[gnu::always_inline]] inline void lstm(LstmStep const& step) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  for (std::int64_t row = 0; row != step.samples; ++row) {
    std::int64_t i = 0;
    for (; i + width <= step.hidden; i += width) lstm_vector<Numbers>(step, row, i);
    for (; i < step.hidden; i += 4) lstm_vector<Vector<float, 16>>(step, row, i);
  }
}
template <class Numbers>
[[gnu::always_inline]] inline void lstm_backward(LstmStep const& step) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  for (std::int64_t row = 0; row != step.samples; ++row) {
    std::int64_t i = 0;
    for (; i + width <= step.hidden; i += width) lstm_backward_vector<Numbers>(step, row, i);
    for (; i < step.hidden; i += 4) lstm_backward_vector<Vector<float, 16>>(step, row, i);
  }
}

}  // namespace passes

/// to[i] = gradient[i] (Phi(x[i]) + x[i] phi(x[i])) with the normal distribution function Phi and its density phi: the
/// gradient of aten::gelu without approximation. The error of Phi is at most 2e-7. LibTorch's kernel computes an error
/// function that is exact to the last bit, and an exponential besides; here both are of one exponential.
FULGURITE_BULK_BODY void gelu_backward(float* to, float const* gradient, float const* x, std::int64_t n) {
  constexpr std::int64_t part = few_numbers;
  on_threads((n + part - 1) / part, [&](std::int64_t i) {
    auto const from = i * part;
    in_widest_vectors<float>([&]<class Numbers>() __attribute__((always_inline)) {
      passes::gelu<Numbers>(to + from, x + from, gradient + from, std::min(part, n - from));
    });
  });
}

FULGURITE_BULK_BODY bool is_for_gelu(at::Tensor const& gradient, at::Tensor const& x, std::string_view approximate) {
  auto const fits = [](at::Tensor const& tensor) { return is_plain_float(tensor) && tensor.is_contiguous(); };
  return on_this_thread() == Matmul::fastest && approximate == "none" && fits(x) && fits(gradient) &&
         gradient.sizes() == x.sizes() && x.numel() != 0;
}

/// In front of LibTorch's own kernel: while a scope of Matmul::fastest is open, gelu_backward() for contiguous float32
/// tensors on the CPU.
FULGURITE_BULK_BODY at::Tensor gelu_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& gradient,
                                                         at::Tensor const& x, std::string_view approximate) {
  if (!is_for_gelu(gradient, x, approximate))
    return at::_ops::gelu_backward::redispatch(keys & below_products, gradient, x, approximate);
  auto const result = at::Tensor(at::detail::empty_cpu(x.sizes(), at::kFloat));
  gelu_backward(static_cast<float*>(result.mutable_data_ptr()), numbers(gradient), numbers(x), x.numel());
  return result;
}

/// The sizes of q, k and v, of one shape: samples, heads, rows, numbers of a row. Each row lies in one piece.
struct AttentionShape {
  explicit AttentionShape(at::Tensor const& q)
      : samples(q.size(0)), heads(q.size(1)), rows(q.size(2)), wide(q.size(3)), distance((rows + 15) / 16 * 16) {}
  std::int64_t samples, heads, rows, wide;
  std::int64_t distance;  ///< between rows of scores

  /// A new tensor of this shape, with the strides of LibTorch's results: samples, rows, heads, numbers.
  at::Tensor made() const {
    return at::Tensor(at::detail::empty_strided_cpu({samples, heads, rows, wide},
                                                    {rows * heads * wide, wide, heads * wide, 1}, at::kFloat));
  }
};

/// Returns nullptr if there is no kernel.
FULGURITE_BULK_BODY Kernel product_by(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_distance,
                                      bool a_turned, std::int64_t b_distance, std::int64_t c_distance) {
  return process_kernels().load()->product(int(m), int(n), int(k), int(a_distance), a_turned, int(b_distance),
                                           int(c_distance));
}

/// The first number of a head.
FULGURITE_BULK_BODY float* head(at::Tensor const& tensor, std::int64_t i) {
  return static_cast<float*>(tensor.data_ptr()) + i / tensor.size(1) * tensor.stride(0) +
         i % tensor.size(1) * tensor.stride(1);
}

/// True for causal or full attention of few rows without dropout and mask. Of more rows LibTorch's kernel leaves out
/// what a causal mask hides, and its products are larger, so that less is gained.
FULGURITE_BULK_BODY bool is_for_attention(at::Tensor const& q, std::initializer_list<at::Tensor> others, double dropout,
                                          std::optional<at::Tensor> const& mask, std::optional<double> scale) {
  auto const fits = [&](at::Tensor const& x) {
    return is_plain_float(x) && x.dim() == 4 && x.sizes() == q.sizes() && x.stride(3) == 1 &&
           x.stride(2) >= x.size(3) && x.stride(0) >= 0 && x.stride(1) >= 0;
  };
  return on_this_thread() == Matmul::fastest && dropout == 0 && !(mask && mask->defined()) && (!scale || *scale > 0) &&
         fits(q) && std::all_of(others.begin(), others.end(), fits) && q.numel() != 0 && q.size(2) <= 128 &&
         q.size(3) % 16 == 0 && q.size(3) <= 128;
}

FULGURITE_BULK_BODY float scale_of(AttentionShape const& shape, std::optional<double> given) {
  return static_cast<float>(given ? *given : 1 / std::sqrt(static_cast<double>(shape.wide)));
}

/// Attention of at most 128 rows, causal or not, by LIBXSMM's products. LibTorch's kernels multiply by MKL, whose calls
/// take longer than these products. Also returns the logarithms of the sums of exponentials, as LibTorch's.
FULGURITE_BULK_BODY std::tuple<at::Tensor, at::Tensor>
attention_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& q, at::Tensor const& k, at::Tensor const& v,
                      double dropout, bool causal, std::optional<at::Tensor> const& mask, std::optional<double> scale) {
  constexpr std::int64_t block = 32;  // rows, so that causal attention computes few scores that it does not need
  auto const libtorch = [&] {
    return at::_ops::_scaled_dot_product_flash_attention_for_cpu::redispatch(keys & below_products, q, k, v, dropout,
                                                                             causal, mask, scale);
  };
  if (!is_for_attention(q, {k, v}, dropout, mask, scale)) return libtorch();
  AttentionShape const shape(q);
  auto const samples = shape.samples, heads = shape.heads, rows = shape.rows, wide = shape.wide;
  struct Block {
    std::int64_t first, count, seen;  ///< rows, and the keys that they see
    Kernel scores, results;
  };
  std::vector<Block> blocks;
  auto const out = shape.made();
  for (std::int64_t first = 0; first < rows; first += block) {
    auto const count = std::min(block, rows - first), seen = causal ? first + count : rows;
    blocks.push_back({first, count, seen, product_by(count, seen, wide, q.stride(2), false, rows, shape.distance),
                      product_by(count, wide, seen, shape.distance, false, v.stride(2), out.stride(2))});
    if (!blocks.back().scores || !blocks.back().results) return libtorch();
  }
  at::Tensor const sums(at::detail::empty_strided_cpu({samples, heads, rows}, {rows * heads, 1, heads}, at::kFloat));
  on_threads(samples * heads, [&](std::int64_t i) {
    auto* const turned = scratch(3, wide * rows + block * shape.distance);
    auto* const scores = turned + wide * rows;
    turn(turned, head(k, i), wide, rows, k.stride(2), rows);
    for (auto const& one : blocks) {
      one.scores(turned, head(q, i) + one.first * q.stride(2), scores);
      auto* const sum = static_cast<float*>(sums.data_ptr()) + i / heads * rows * heads + i % heads + one.first * heads;
      passes::Scores const all{
          scores, one.count, one.seen, shape.distance, causal ? one.first : -1, scale_of(shape, scale), sum, heads};
      in_widest_vectors<float>([&]<class Numbers>() __attribute__((always_inline)) { passes::softmax<Numbers>(all); });
      one.results(head(v, i), scores, head(out, i) + one.first * out.stride(2));
    }
  });
  return {out, sums};
}

FULGURITE_BULK_BODY std::tuple<at::Tensor, at::Tensor, at::Tensor>
attention_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& gradient, at::Tensor const& q,
                               at::Tensor const& k, at::Tensor const& v, at::Tensor const& out, at::Tensor const& sums,
                               double dropout, bool causal, std::optional<at::Tensor> const& mask,
                               std::optional<double> scale) {
  auto const libtorch = [&] {
    return at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward::redispatch(
        keys & below_products, gradient, q, k, v, out, sums, dropout, causal, mask, scale);
  };
  if (!is_for_attention(q, {k, v, gradient, out}, dropout, mask, scale) || !is_plain_float(sums)) return libtorch();
  AttentionShape const shape(q);
  auto const rows = shape.rows, wide = shape.wide, distance = shape.distance, apart = gradient.stride(2);
  auto const dq = shape.made(), dk = shape.made(), dv = shape.made();
  auto const scores_by = product_by(rows, rows, wide, q.stride(2), false, rows, distance),
             results_by = product_by(rows, rows, wide, apart, false, rows, distance),
             dv_by = product_by(rows, wide, rows, distance, true, apart, dv.stride(2)),
             dq_by = product_by(rows, wide, rows, distance, false, k.stride(2), dq.stride(2)),
             dk_by = product_by(rows, wide, rows, distance, true, q.stride(2), dk.stride(2));
  if (!scores_by || !results_by || !dv_by || !dq_by || !dk_by) return libtorch();
  on_threads(shape.samples * shape.heads, [&](std::int64_t i) {
    auto* const turned = scratch(3, wide * rows + 2 * rows * distance);
    auto *const scores = turned + wide * rows, *const of_results = scores + rows * distance;
    auto const *const queries = head(q, i), *const by = head(gradient, i);
    turn(turned, head(k, i), wide, rows, k.stride(2), rows);
    scores_by(turned, queries, scores);
    turn(turned, head(v, i), wide, rows, v.stride(2), rows);
    results_by(turned, by, of_results);
    auto* const sum =
        static_cast<float*>(sums.data_ptr()) + i / shape.heads * sums.stride(0) + i % shape.heads * sums.stride(1);
    passes::Scores const all{scores, rows,          rows, distance, causal ? 0 : -1, scale_of(shape, scale),
                             sum,    sums.stride(2)};
    in_widest_vectors<float>([&]<class Numbers>() __attribute__((always_inline)) {
      passes::softmax_backward<Numbers>(all, of_results, head(out, i), out.stride(2), by, apart, wide);
    });
    dv_by(by, scores, head(dv, i));
    dq_by(head(k, i), of_results, head(dq, i));
    dk_by(queries, of_results, head(dk, i));
  });
  return {dq, dk, dv};
}

/// The sizes of one layer of an LSTM in one direction, and its products. What its gradient needs lies in one tensor:
/// for each time and sample a row of inputs (x, the state before and a 1, by which the product adds the biases), what
/// the gates let through, the cells after the step, and their tangents.
struct LstmLayer {
  LstmLayer(at::Tensor const& x, std::int64_t of_hidden)
      : times(x.size(0)), samples(x.size(1)), in(x.size(2)), hidden(of_hidden) {}
  std::int64_t times, samples, in, hidden;
  std::int64_t rows = times * samples, gates = 4 * hidden, wide = in + hidden + 1;
  Kernel sums = product_by(samples, gates, wide, wide, false, gates, gates),
         of_h = product_by(samples, hidden, gates, gates, false, hidden, hidden),
         of_x = product_by(rows, in, gates, gates, false, in, in),
         of_x_weight = product_by(gates, in, rows, gates, true, wide, in),
         of_h_weight = product_by(gates, hidden, rows, gates, true, wide, hidden);

  explicit operator bool() const { return sums && of_h && of_x && of_x_weight && of_h_weight; }

  /// The memory of one step of time, without its output and gradients. `kept`: the tensor of rows * (wide + 6 * hidden)
  /// numbers; `before`: the cells before the first step.
  passes::LstmStep step(at::Tensor const& kept, float const* first_cells, std::int64_t t, std::int64_t before) const {
    auto *const all = static_cast<float*>(kept.data_ptr()) + rows * wide, *const cells = all + rows * gates,
                *const tangents = cells + rows * hidden;
    auto const each = samples * hidden;
    return {samples,
            hidden,
            all + t * samples * gates,
            before < 0 || before == times ? first_cells : cells + before * each,
            cells + t * each,
            tangents + t * each,
            nullptr};
  }
};

FULGURITE_BULK_BODY at::Tensor new_floats(at::IntArrayRef sizes) {
  return at::Tensor(at::detail::empty_cpu(sizes, at::kFloat));
}

/// At most 65536 numbers of all states, the most for which this was never slower than oneDNN; and at most 2048 terms in
/// the gradients of weights, which are summed one after the other.
FULGURITE_BULK_BODY bool is_for_lstm(at::Tensor const& x, at::Tensor const& x_weight, at::Tensor const& h_weight,
                                     at::Tensor const& x_bias, at::Tensor const& h_bias, at::Tensor const& h,
                                     at::Tensor const& c, std::int64_t hidden) {
  if (!is_plain_float(x) || x.dim() != 3) return false;
  auto const rows = x.size(0) * x.size(1), in = x.size(2), gates = 4 * hidden, states = x.size(1) * hidden;
  auto const has = [](at::Tensor const& tensor, std::int64_t numbers) {
    return is_plain_float(tensor) && tensor.is_contiguous() && tensor.numel() == numbers;
  };
  return on_this_thread() == Matmul::fastest && x.stride(2) == 1 && x.numel() != 0 && in <= 128 && rows <= 2048 &&
         rows * hidden <= 65536 && hidden > 0 && hidden <= 128 && hidden % 4 == 0 && has(x_weight, gates * in) &&
         has(h_weight, gates * hidden) && has(x_bias, gates) && has(h_bias, gates) && has(h, states) && has(c, states);
}

/// One small layer of an LSTM in one direction, by LIBXSMM's products. LibTorch's are oneDNN's, which took 1.1 to 9
/// times as long for such layers on one core of an Intel processor (forward and backward), and less time than ours for
/// larger ones. The last result of the forward pass is what the gradient needs of it; it is float32 from ours and bytes
/// from LibTorch's, so a gradient is always by the side that computed the layer.
FULGURITE_BULK_BODY std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>
lstm_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, at::Tensor const& x_weight, at::Tensor const& h_weight,
                 at::Tensor const& x_bias, at::Tensor const& h_bias, at::Tensor const& h, at::Tensor const& c,
                 bool reverse, at::IntArrayRef batch_sizes, std::int64_t mode, std::int64_t hidden, std::int64_t layers,
                 bool has_biases, bool bidirectional, bool batch_first, bool train) {
  constexpr std::int64_t lstm = 2;  // LibTorch's number for this kind of layer
  auto const libtorch = [&] {
    return at::_ops::mkldnn_rnn_layer::redispatch(keys & below_products, x, x_weight, h_weight, x_bias, h_bias, h, c,
                                                  reverse, batch_sizes, mode, hidden, layers, has_biases, bidirectional,
                                                  batch_first, train);
  };
  if (mode != lstm || !has_biases || !batch_sizes.empty() ||
      !is_for_lstm(x, x_weight, h_weight, x_bias, h_bias, h, c, hidden))
    return libtorch();
  LstmLayer const layer(x, hidden);
  if (!layer) return libtorch();
  auto const in = layer.in, samples = layer.samples, gates = layer.gates, wide = layer.wide;
  auto* const weights = scratch(3, wide * gates);
  auto* const bias = weights + (wide - 1) * gates;
  turn(weights, numbers(x_weight), in, gates, in, gates);
  turn(weights + in * gates, numbers(h_weight), hidden, gates, hidden, gates);
  std::memcpy(bias, numbers(x_bias), x_bias.nbytes());
  add_to(bias, numbers(h_bias), gates);
  auto const kept = new_floats({layer.rows * (wide + 6 * hidden)}), out = new_floats({layer.times, samples, hidden}),
             last_h = new_floats(h.sizes()), last_c = new_floats(c.sizes());
  auto* const outs = static_cast<float*>(out.mutable_data_ptr());
  auto const *state = numbers(h), *cells = numbers(c);
  for (std::int64_t i = 0; i != layer.times; ++i) {
    auto const t = reverse ? layer.times - 1 - i : i;
    auto step = layer.step(kept, numbers(c), t, reverse ? t + 1 : t - 1);
    auto* const inputs = static_cast<float*>(kept.mutable_data_ptr()) + t * samples * wide;
    for (std::int64_t s = 0; s != samples; ++s) {
      auto* const row = inputs + s * wide;
      std::memcpy(row, numbers(x) + t * x.stride(0) + s * x.stride(1), static_cast<std::size_t>(in) * sizeof(float));
      std::memcpy(row + in, state + s * hidden, static_cast<std::size_t>(hidden) * sizeof(float));
      row[wide - 1] = 1;
    }
    layer.sums(weights, inputs, step.gates);
    step.out = outs + t * samples * hidden;
    in_widest_vectors<float>([&]<class Numbers>() __attribute__((always_inline)) { passes::lstm<Numbers>(step); });
    state = step.out;
    cells = step.cells;
  }
  std::memcpy(last_h.mutable_data_ptr(), state, last_h.nbytes());
  std::memcpy(last_c.mutable_data_ptr(), cells, last_c.nbytes());
  return {out, last_h, last_c, c10::GradMode::is_enabled() ? kept : at::Tensor()};
}

FULGURITE_BULK_BODY std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
lstm_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, at::Tensor const& x_weight,
                          at::Tensor const& h_weight, at::Tensor const& x_bias, at::Tensor const& h_bias,
                          at::Tensor const& h, at::Tensor const& c, at::Tensor const& out, at::Tensor const& last_h,
                          at::Tensor const& last_c, std::optional<at::Tensor> const& of_out,
                          std::optional<at::Tensor> const& of_last_h, std::optional<at::Tensor> const& of_last_c,
                          bool reverse, std::int64_t mode, std::int64_t hidden, std::int64_t layers, bool has_biases,
                          bool train, bool bidirectional, at::IntArrayRef batch_sizes, bool batch_first,
                          at::Tensor const& kept) {
  if (!kept.defined() || kept.scalar_type() != at::kFloat)
    return at::_ops::mkldnn_rnn_layer_backward::redispatch(
        keys & below_products, x, x_weight, h_weight, x_bias, h_bias, h, c, out, last_h, last_c, of_out, of_last_h,
        of_last_c, reverse, mode, hidden, layers, has_biases, train, bidirectional, batch_sizes, batch_first, kept);
  auto const given = [](std::optional<at::Tensor> const& gradient) { return gradient && gradient->defined(); };
  if (!given(of_out) && !given(of_last_h) && !given(of_last_c)) return {};  // as LibTorch: not zeros, but no gradient
  LstmLayer const layer(x, hidden);
  TORCH_CHECK(layer, "LIBXSMM has no memory left for the products of an LSTM's gradient");
  auto const begun = [&](std::optional<at::Tensor> const& gradient, at::Tensor const& like) {
    auto made = new_floats(like.sizes());
    if (given(gradient)) std::memcpy(made.mutable_data_ptr(), numbers(gradient->contiguous()), made.nbytes());
    else std::memset(made.mutable_data_ptr(), 0, made.nbytes());
    return made;
  };
  auto const to = [](at::Tensor const& tensor) { return static_cast<float*>(tensor.mutable_data_ptr()); };
  auto const of_h = begun(of_last_h, h), of_c = begun(of_last_c, c), of_x = new_floats(x.sizes()),
             of_x_weight = new_floats(x_weight.sizes()), of_h_weight = new_floats(h_weight.sizes()),
             of_x_bias = new_floats(x_bias.sizes()), of_h_bias = new_floats(h_bias.sizes());
  at::Tensor by;
  if (given(of_out)) by = of_out->stride(2) == 1 ? *of_out : of_out->contiguous();
  auto* const of_gates = scratch(3, layer.rows * layer.gates);
  for (std::int64_t i = layer.times - 1; i >= 0; --i) {
    auto const t = reverse ? layer.times - 1 - i : i;
    auto step = layer.step(kept, numbers(c), t, reverse ? t + 1 : t - 1);
    if (by.defined()) {
      step.of_out = numbers(by) + t * by.stride(0);
      step.of_out_apart = by.stride(1);
    }
    step.of_h = numbers(of_h);
    step.of_cells = to(of_c);
    step.of_gates = of_gates + t * layer.samples * layer.gates;
    in_widest_vectors<float>([&]<class Numbers>()
                                 __attribute__((always_inline)) { passes::lstm_backward<Numbers>(step); });
    layer.of_h(numbers(h_weight), step.of_gates, to(of_h));
  }
  auto const* const inputs = numbers(kept);
  layer.of_x(numbers(x_weight), of_gates, to(of_x));
  layer.of_x_weight(inputs, of_gates, to(of_x_weight));
  layer.of_h_weight(inputs + layer.in, of_gates, to(of_h_weight));
  std::memset(to(of_x_bias), 0, of_x_bias.nbytes());
  for (std::int64_t row = 0; row != layer.rows; ++row) add_to(to(of_x_bias), of_gates + row * layer.gates, layer.gates);
  std::memcpy(to(of_h_bias), to(of_x_bias), of_h_bias.nbytes());
  return {of_x, of_x_weight, of_h_weight, of_x_bias, of_h_bias, of_h, of_c};
}

FULGURITE_BULK_BODY void intercept_others(torch::Library& library) {
  library.impl("gelu_backward", TORCH_FN(gelu_backward_or_libtorch));
  library.impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(attention_or_libtorch));
  library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", TORCH_FN(attention_backward_or_libtorch));
  library.impl("mkldnn_rnn_layer", TORCH_FN(lstm_or_libtorch));
  library.impl("mkldnn_rnn_layer_backward", TORCH_FN(lstm_backward_or_libtorch));
}

FULGURITE_BULK_BODY std::optional<SmallCall> fastest_call(std::string_view name, torch::jit::Stack const& arguments) {
  auto const tensor = [&](std::size_t i) { return arguments[i].toTensor(); };
  if (name == "aten::gelu_backward.grad_input" && is_for_gelu(tensor(0), tensor(1), arguments[2].toStringView()) &&
      tensor(3).is_contiguous())
    return SmallCall{
        [](SmallCall const& call) { gelu_backward(call.to(), call.from(0), call.from(1), call.in[0].numel()); },
        {tensor(0), tensor(1)},
        {tensor(3)}};
  return std::nullopt;
}

}  // namespace fulgurite::libtorch::native
