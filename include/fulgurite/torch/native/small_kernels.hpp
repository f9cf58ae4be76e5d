#pragma once
// What LibTorch's CPU kernels compute for common operators on float32, in the same order and so with the same bits,
// without what stands between a caller and the arithmetic: dispatch, boxed arguments, iterators. For a few hundred
// numbers that takes many times as long as the arithmetic.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fulgurite/torch/native/number_loop.hpp>

namespace fulgurite::libtorch::native {

/// aten::relu.
inline void relu(float* to, float const* x, std::int64_t n) {
  each_number(n, [](auto value) { return value < decltype(value){} ? decltype(value){} : value; }, to, x);
}

/// aten::threshold_backward with threshold 0: the gradient, where the result of relu was not 0.
inline void relu_backward(float* to, float const* gradient, float const* result, std::int64_t n) {
  each_number(
      n, [](auto value, auto seen) { return seen <= decltype(seen){} ? decltype(value){} : value; }, to, gradient,
      result);
}

inline void add(float* to, float const* a, float const* b, std::int64_t n) {
  each_number(n, [](auto x, auto y) { return x + y; }, to, a, b);
}
inline void multiply(float* to, float const* a, float const* b, std::int64_t n) {
  each_number(n, [](auto x, auto y) { return x * y; }, to, a, b);
}

/// aten::mse_loss_backward. `scale`: 2 over the number of elements for a mean.
inline void mse_backward(float* to, float scale, float gradient, float const* x, float const* target, std::int64_t n) {
  each_number(n, [=](auto value, auto wanted) { return scale * (value - wanted) * gradient; }, to, x, target);
}

/// Sums of which LibTorch takes `step` terms in turn in each of four levels, so that rounding errors stay small
/// (ATen/native/cpu/SumKernel.cpp). `term(i)` gives the i-th; up to 2^19 of them.
template <class T, class Term>
inline T cascade_sum(std::int64_t count, Term term) {
  constexpr std::int64_t step = 16;
  T level[4] = {};
  std::int64_t i = 0;
  while (i + step <= count) {
    for (std::int64_t j = 0; j != step; ++j) level[0] += term(i++);
    for (std::int64_t j = 1, mask = (step - 1) * step; j != 4; ++j, mask *= step) {
      level[j] += level[j - 1];
      level[j - 1] = T{};
      if ((i & mask) != 0) break;
    }
  }
  for (; i != count; ++i) level[0] += term(i);
  return level[0] + level[1] + level[2] + level[3];
}

/// The same for four interleaved sums, which are added at the end.
template <class T, class Term>
inline T interleaved_sum(std::int64_t count, Term term) {
  T part[4];
  for (std::int64_t k = 0; k != 4; ++k)
    part[k] = cascade_sum<T>(count / 4, [&](std::int64_t i) { return term(4 * i + k); });
  for (std::int64_t i = count / 4 * 4; i != count; ++i) part[0] += term(i);
  return part[0] + part[1] + part[2] + part[3];
}

/// aten::sum over the rows of a matrix. LibTorch takes the first columns, as many as fill its registers, in one order,
/// and the rest in another; `plain` says where the rest begins, a multiple of 4.
inline void column_sums(float* to, float const* x, std::int64_t rows, std::int64_t columns, std::int64_t plain) {
  std::int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    auto const term = [=](std::int64_t i) { return wide<float>(x + i * columns + j); };
    put_wide<float>(to + j, Wide<float>{} + (j < plain ? cascade_sum<Wide<float>>(rows, term)
                                                       : interleaved_sum<Wide<float>>(rows, term)));
  }
  for (; j != columns; ++j)
    to[j] = 0.0F + interleaved_sum<float>(rows, [=](std::int64_t i) { return x[i * columns + j]; });
}

/// aten::nll_loss_forward for the mean without weights of classes. False: a class is none of 0..classes-1, and nothing
/// is written.
inline bool nll_loss(float* loss, float* total_weight, float const* log_probabilities, std::int64_t const* classes_of,
                     std::int64_t samples, std::int64_t classes, std::int64_t ignored) {
  constexpr std::int64_t step = 16;
  float level[8] = {};
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i != samples; ++i) {
    auto const which = classes_of[i];
    if (which == ignored) continue;
    if (which < 0 || which >= classes) return false;
    ++counted;
    level[0] -= log_probabilities[i * classes + which];
    std::int64_t mask = step - 1;
    for (std::size_t j = 0; j != 7 && (i & mask) == 0; ++j, mask *= step) {
      level[j + 1] += level[j];
      level[j] = 0;
    }
  }
  float sum = 0;
  for (float const part : level) sum += part;
  *total_weight = static_cast<float>(counted);
  *loss = sum / *total_weight;
  return true;
}

/// aten::nll_loss_backward of the same. Classes were looked at by the forward pass.
inline void nll_loss_backward(float* to, float gradient, float total_weight, std::int64_t const* classes_of,
                              std::int64_t samples, std::int64_t classes, std::int64_t ignored) {
  std::fill_n(to, samples * classes, 0.0F);
  float const volatile quotient = gradient / total_weight;  // else compilers negate before, and NaN has another sign
  float const each = -quotient;
  for (std::int64_t i = 0; i != samples; ++i)
    if (auto const which = classes_of[i]; which != ignored) to[i * classes + which] = each;
}

}  // namespace fulgurite::libtorch::native
