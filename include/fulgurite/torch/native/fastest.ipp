#pragma once
// The bodies of torch/native/fastest.hpp.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/gelu_backward_ops.h>

#include <fulgurite/torch/native/fastest.hpp>
#include <fulgurite/torch/native/products.hpp>

namespace fulgurite::libtorch::native {

namespace passes {

/// A vector of T with as many bytes as `Numbers`.
template <class Numbers, class T>
using Like __attribute__((vector_size(sizeof(Numbers)))) = T;

/// x becomes its exponential, 2^n times a polynomial of what n leaves; numbers below -87 count as that, those above 88
/// do not occur.
template <class Numbers>
[[gnu::always_inline]] inline void exponential(Numbers& x) {
  using Whole = Like<Numbers, std::int32_t>;
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

#if defined(__x86_64__)
[[gnu::target("avx512f")]] inline void softmax_512(Scores const& scores) { softmax<Sixteen>(scores); }
[[gnu::target("avx2,fma")]] inline void softmax_256(Scores const& scores) { softmax<Eight>(scores); }
[[gnu::target("avx512f")]] inline void softmax_backward_512(Scores const& scores, float* of_results, float const* out,
                                                            std::int64_t out_apart, float const* gradient,
                                                            std::int64_t gradient_apart, std::int64_t wide) {
  softmax_backward<Sixteen>(scores, of_results, out, out_apart, gradient, gradient_apart, wide);
}
[[gnu::target("avx2,fma")]] inline void softmax_backward_256(Scores const& scores, float* of_results, float const* out,
                                                             std::int64_t out_apart, float const* gradient,
                                                             std::int64_t gradient_apart, std::int64_t wide) {
  softmax_backward<Eight>(scores, of_results, out, out_apart, gradient, gradient_apart, wide);
}
[[gnu::target("avx512f")]] inline void gelu_512(float* to, float const* x, float const* gradient, std::int64_t n) {
  gelu<Sixteen>(to, x, gradient, n);
}
[[gnu::target("avx2,fma")]] inline void gelu_256(float* to, float const* x, float const* gradient, std::int64_t n) {
  gelu<Eight>(to, x, gradient, n);
}
#endif

/// The functions above for the widest vectors of this processor.
struct Fitting {
  decltype(&gelu<Four>) gelu = &passes::gelu<Four>;
  decltype(&softmax<Four>) softmax = &passes::softmax<Four>;
  decltype(&softmax_backward<Four>) softmax_backward = &passes::softmax_backward<Four>;
};

FULGURITE_BULK_BODY Fitting const& fitting() {
  static Fitting const all = [] {
    Fitting one;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) one = {&gelu_512, &softmax_512, &softmax_backward_512};
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      one = {&gelu_256, &softmax_256, &softmax_backward_256};
#endif
    return one;
  }();
  return all;
}

}  // namespace passes

FULGURITE_BULK_BODY void gelu_backward(float* to, float const* gradient, float const* x, std::int64_t n) {
  auto const by = passes::fitting().gelu;
  constexpr std::int64_t part = few_numbers;
  on_threads((n + part - 1) / part, [&](std::int64_t i) {
    auto const from = i * part;
    by(to + from, x + from, gradient + from, std::min(part, n - from));
  });
}

FULGURITE_BULK_BODY bool is_for_gelu(at::Tensor const& gradient, at::Tensor const& x, std::string_view approximate) {
  auto const fits = [](at::Tensor const& tensor) { return is_plain_float(tensor) && tensor.is_contiguous(); };
  return on_this_thread() == Matmul::fastest && approximate == "none" && fits(x) && fits(gradient) &&
         gradient.sizes() == x.sizes() && x.numel() != 0;
}

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
  /// Returns nullptr if there is no kernel.
  Kernel product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_distance, bool a_turned,
                 std::int64_t b_distance, std::int64_t c_distance) const {
    return process_kernels().load()->product(int(m), int(n), int(k), int(a_distance), a_turned, int(b_distance),
                                             int(c_distance));
  }
};

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
    blocks.push_back({first, count, seen, shape.product(count, seen, wide, q.stride(2), false, rows, shape.distance),
                      shape.product(count, wide, seen, shape.distance, false, v.stride(2), out.stride(2))});
    if (!blocks.back().scores || !blocks.back().results) return libtorch();
  }
  at::Tensor const sums(at::detail::empty_strided_cpu({samples, heads, rows}, {rows * heads, 1, heads}, at::kFloat));
  on_threads(samples * heads, [&](std::int64_t i) {
    auto* const turned = scratch(3, wide * rows + block * shape.distance);
    auto* const scores = turned + wide * rows;
    turn(turned, head(k, i), wide, rows, k.stride(2));
    for (auto const& one : blocks) {
      one.scores(turned, head(q, i) + one.first * q.stride(2), scores);
      auto* const sum = static_cast<float*>(sums.data_ptr()) + i / heads * rows * heads + i % heads + one.first * heads;
      passes::fitting().softmax(
          {scores, one.count, one.seen, shape.distance, causal ? one.first : -1, scale_of(shape, scale), sum, heads});
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
  auto const scores_by = shape.product(rows, rows, wide, q.stride(2), false, rows, distance),
             results_by = shape.product(rows, rows, wide, apart, false, rows, distance),
             dv_by = shape.product(rows, wide, rows, distance, true, apart, dv.stride(2)),
             dq_by = shape.product(rows, wide, rows, distance, false, k.stride(2), dq.stride(2)),
             dk_by = shape.product(rows, wide, rows, distance, true, q.stride(2), dk.stride(2));
  if (!scores_by || !results_by || !dv_by || !dq_by || !dk_by) return libtorch();
  on_threads(shape.samples * shape.heads, [&](std::int64_t i) {
    auto* const turned = scratch(3, wide * rows + 2 * rows * distance);
    auto *const scores = turned + wide * rows, *const of_results = scores + rows * distance;
    auto const *const queries = head(q, i), *const by = head(gradient, i);
    turn(turned, head(k, i), wide, rows, k.stride(2));
    scores_by(turned, queries, scores);
    turn(turned, head(v, i), wide, rows, v.stride(2));
    results_by(turned, by, of_results);
    auto* const sum =
        static_cast<float*>(sums.data_ptr()) + i / shape.heads * sums.stride(0) + i % shape.heads * sums.stride(1);
    passes::fitting().softmax_backward(
        {scores, rows, rows, distance, causal ? 0 : -1, scale_of(shape, scale), sum, sums.stride(2)}, of_results,
        head(out, i), out.stride(2), by, apart, wide);
    dv_by(by, scores, head(dv, i));
    dq_by(head(k, i), of_results, head(dq, i));
    dk_by(queries, of_results, head(dk, i));
  });
  return {dq, dk, dv};
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
