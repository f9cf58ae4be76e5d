#pragma once
// A function with its arguments, which a replay calls instead of an operator on few numbers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/stack.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch::native {

/// Sums like LibTorch, which adds `step` terms at a time in each of four levels to keep rounding errors small
/// (ATen/native/cpu/SumKernel.cpp). `term(i)` is the i-th of at most 2^19 terms.
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

/// The sum of consecutive numbers. LibTorch sums as many interleaved columns as its registers have `lanes`, after what
/// remains.
inline float sum_in_lanes(std::int64_t count, std::int64_t lanes, auto term) {
  auto const rows = count / lanes;
  float sum = 0;
  for (std::int64_t i = rows * lanes; i != count; ++i) sum += term(i);
  for (std::int64_t lane = 0; rows != 0 && lane != lanes; ++lane)
    sum += interleaved_sum<float>(rows, [&](std::int64_t i) { return term(i * lanes + lane); });
  return sum;
}

/// From this number on LibTorch may run an operator on several threads, and the cost of a call does not matter.
inline constexpr std::int64_t few_numbers = 32768;

/// A product of two matrices as BLAS takes it. BLAS stores matrices column by column, so it is asked for the product of
/// the transposes in the other order.
struct BlasProduct {
  char first = 'N', second = 'N';  ///< 'T': the factor is stored column by column
  int rows = 0, columns = 0, inner = 0;
  int first_stride = 0, second_stride = 0;
};

/// LibTorch's own kernel of an operator, which has looked at its arguments.
struct ReadyKernel : Pinned {
  virtual ~ReadyKernel() = default;
  virtual void run() = 0;
};

/// A call that `run()` makes on the memory that its tensors had at the last `look_up()`.
struct SmallCall {
  using Function = void (*)(SmallCall const&);
  using Ready = std::shared_ptr<ReadyKernel>;
  static constexpr std::size_t most_in = 3, most_out = 2;

  Function function;
  std::vector<at::Tensor> in, out;
  std::int64_t rows = 1, columns = 0;  ///< those of the first tensor in `in` or, if that is a number, of the result
  std::int64_t number = 0;             ///< an additional argument of the function
  double value = 0;                    ///< another one
  at::Generator generator = {};        ///< undefined: the thread's
  BlasProduct product = {};            ///< of a function that calls BLAS
  Ready (*make_ready)(SmallCall const&) = nullptr;  ///< of a function that runs `ready`
  Ready ready = nullptr;
  bool plus_zero = false;  ///< the result x is 0 + x, too: it is never -0
  std::array<void const*, most_in> read = {};
  std::array<void*, most_out> written = {};

  /// Asking a tensor for its memory takes longer than some of the functions. To be called before the first run, and
  /// when a tensor has other memory.
  void look_up();
  void run() const { function(*this); }
  float const* from(std::size_t i) const;
  std::int64_t const* classes() const;
  float* to(std::size_t i = 0) const;
  at::Tensor& place() const;  ///< for LibTorch's functions, which may resize it
};

/// The candidates for a call of an operator, of which at most one has LibTorch's bits, which has to be tested. `name`:
/// with the overload.
std::vector<SmallCall> small_calls(std::string_view name, torch::jit::Stack const& arguments);

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/small_call.ipp>
#endif
