#pragma once
// The bodies of torch/native/small_call.hpp.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Version.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax_backward_data_native.h>
#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/nll_loss_forward_cpu_dispatch.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/tanh_native.h>

#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/native/plan.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace fulgurite::libtorch::native {

extern "C" {
/// BLAS's product, which LibTorch's library for x86 processors contains and calls; null in a library without it.
[[gnu::weak]] void fulgurite_sgemm(char const* a_turned, char const* b_turned, int const* rows, int const* columns,
                                   int const* inner, float const* alpha, float const* a, int const* a_stride,
                                   float const* b, int const* b_stride, float const* beta, float* c,
                                   int const* c_stride) __asm__("sgemm_");
}

// The computation of LibTorch's CPU kernels for common operators on float32, in the same order and so with the same
// bits, without the overhead of dispatch, boxed arguments and iterators. For a few hundred numbers that overhead takes
// many times as long as the arithmetic.

/// aten::relu.
FULGURITE_BULK_BODY void relu(SmallCall const& c) {
  each_number(
      c.columns,
      [](auto& y, auto const& value) __attribute__((always_inline)) {
        std::remove_reference_t<decltype(y)> const zero{};
        y = value < zero ? zero : value;
      },
      c.to(), c.from(0));
}

/// aten::threshold_backward with threshold 0: the gradient where the result of relu was not 0.
FULGURITE_BULK_BODY void relu_backward(SmallCall const& c) {
  each_number(
      c.columns,
      [](auto& y, auto const& value, auto const& seen) __attribute__((always_inline)) {
        std::remove_reference_t<decltype(y)> const zero{};
        y = seen <= zero ? zero : value;
      },
      c.to(), c.from(0), c.from(1));
}

FULGURITE_BULK_BODY void add(SmallCall const& c) {
  each_number(
      c.columns, [](auto& sum, auto const& x, auto const& y) __attribute__((always_inline)) { sum = x + y; }, c.to(),
      c.from(0), c.from(1));
}

FULGURITE_BULK_BODY void multiply(SmallCall const& c) {
  each_number(
      c.columns, [](auto& product, auto const& x, auto const& y) __attribute__((always_inline)) { product = x * y; },
      c.to(), c.from(0), c.from(1));
}

/// aten::div_ by a number.
FULGURITE_BULK_BODY void divide(SmallCall const& c) {
  auto const by = static_cast<float>(c.value);
  each_number(
      c.columns, [=](auto& y, auto const& value) __attribute__((always_inline)) { y = value / by; }, c.to(), c.to());
}

/// aten::mse_loss_backward for a mean.
FULGURITE_BULK_BODY void mse_backward(SmallCall const& c) {
  auto const scale = static_cast<float>(2.0 / static_cast<double>(c.columns)), gradient = *c.from(2);
  each_number(
      c.columns,
      [=](auto& y, auto const& value, auto const& wanted)
          __attribute__((always_inline)) { y = scale * (value - wanted) * gradient; },
      c.to(), c.from(0), c.from(1));
}

/// aten::mse_loss for a mean.
FULGURITE_BULK_BODY void mean_of_squares(SmallCall const& c) {
  auto const *const x = c.from(0), *const target = c.from(1);
  auto const square = [=](std::int64_t i) { return (x[i] - target[i]) * (x[i] - target[i]); };
  *c.to() = sum_in_lanes(c.columns, c.number, square) / static_cast<float>(c.columns);
}

/// aten::sum over the rows of a matrix. LibTorch sums the first columns, as many as fill its registers, in one order,
/// and the remaining ones in another. `number` is the first remaining column, a multiple of 4.
FULGURITE_BULK_BODY void column_sums(SmallCall const& c) {
  using Four = Vector<float, 16>;
  auto const rows = c.rows, columns = c.columns;
  auto const* const x = c.from(0);
  auto* const to = c.to();
  std::int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    auto const term = [=](std::int64_t i) {
      Four numbers;
      std::memcpy(&numbers, x + i * columns + j, sizeof numbers);
      return numbers;
    };
    Four const sums = Four{} + (j < c.number ? cascade_sum<Four>(rows, term) : interleaved_sum<Four>(rows, term));
    std::memcpy(to + j, &sums, sizeof sums);
  }
  for (; j != columns; ++j)
    to[j] = 0.0F + interleaved_sum<float>(rows, [=](std::int64_t i) { return x[i * columns + j]; });
}

/// aten::nll_loss_forward for the mean without class weights. `number`: the class that is ignored.
FULGURITE_BULK_BODY void nll_loss(SmallCall const& c) {
  constexpr std::int64_t step = 16;
  auto const columns = c.columns;
  auto const* const classes = c.classes();
  auto const* const log_probabilities = c.from(0);
  float level[8] = {};
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i != c.rows; ++i) {
    auto const which = classes[i];
    if (which == c.number) continue;
    if (which < 0 || which >= columns) {
      at::cpu::nll_loss_forward(c.in[0], c.in[1], {}, at::Reduction::Mean, c.number);  // throws LibTorch's error
      return;
    }
    ++counted;
    level[0] -= log_probabilities[i * columns + which];
    std::int64_t mask = step - 1;
    for (std::size_t j = 0; j != 7 && (i & mask) == 0; ++j, mask *= step) {
      level[j + 1] += level[j];
      level[j] = 0;
    }
  }
  float sum = 0;
  for (float const part : level) sum += part;
  *c.to(1) = static_cast<float>(counted);
  *c.to(0) = sum / *c.to(1);
}

/// aten::nll_loss_backward of the same. The forward pass has checked the classes.
FULGURITE_BULK_BODY void nll_loss_backward(SmallCall const& c) {
  auto const* const classes = c.classes();
  auto* const to = c.to();
  float const volatile quotient = *c.from(0) / *c.from(1);  // or compilers negate first, and NaN has another sign
  float const each = -quotient;
  std::fill_n(to, c.rows * c.columns, 0.0F);
  for (std::int64_t i = 0; i != c.rows; ++i)
    if (auto const which = classes[i]; which != c.number) to[i * c.columns + which] = each;
}

// LibTorch's generator, the Mersenne Twister, with several numbers at a time. Each is used as two halves of 64 bits.

namespace twister {

/// The next 624 numbers, before they are tempered (at::mt19937_engine::next_state).
template <class Words>
[[gnu::always_inline]] inline void refill(std::uint32_t* state) {
  constexpr std::size_t size = at::MERSENNE_STATE_N, ahead = at::MERSENNE_STATE_M;
  constexpr std::size_t width = sizeof(Words) / sizeof(std::uint32_t);
  auto const one = [=](std::size_t i, std::size_t next, std::size_t other) {
    auto const both = (state[i] & at::UMASK) | (state[next] & at::LMASK);
    state[i] = state[other] ^ (both >> 1) ^ ((0U - (state[next] & 1U)) & at::MATRIX_A);
  };
  std::size_t i = 0;
  for (std::size_t const end : {size - ahead, size - 1}) {
    auto const other = [=](std::size_t k) { return k < size - ahead ? k + ahead : k + ahead - size; };
    for (; i + width <= end; i += width) {
      Words here, next, far;
      std::memcpy(&here, state + i, sizeof here);
      std::memcpy(&next, state + i + 1, sizeof next);
      std::memcpy(&far, state + other(i), sizeof far);
      Words const both = (here & at::UMASK) | (next & at::LMASK);
      here = far ^ (both >> 1) ^ ((0U - (next & 1U)) & at::MATRIX_A);
      std::memcpy(state + i, &here, sizeof here);
    }
    for (; i != end; ++i) one(i, i + 1, other(i));
  }
  one(size - 1, 0, ahead - 1);
}

template <class Words>
[[gnu::always_inline]] inline void take(at::mt19937_data_pod& engine, char* to, std::size_t count) {
  while (count != 0) {
    if (engine.left_ == 1) {
      refill<Words>(engine.state_.data());
      engine.left_ = at::MERSENNE_STATE_N + 1;
      engine.next_ = 0;
    }
    auto const some = std::min(count, static_cast<std::size_t>(engine.left_ - 1));
    std::memcpy(to, engine.state_.data() + engine.next_, some * sizeof(std::uint32_t));
    to += some * sizeof(std::uint32_t);
    engine.next_ += static_cast<std::uint32_t>(some);
    engine.left_ -= static_cast<int>(some);
    count -= some;
  }
}

/// `bound`: the probability in units of 2^-53, as LibTorch makes a double of the lower 53 bits of two numbers, of which
/// the first is the upper half.
template <class Pairs>
[[gnu::always_inline]] inline void bernoulli(float* to, std::uint64_t bound, std::size_t n,
                                             at::mt19937_data_pod& engine) {
  constexpr std::size_t most = 256, width = sizeof(Pairs) / sizeof(std::uint64_t);
  constexpr std::uint64_t each = 0x0000000100000001U;  // the same for both halves
  std::uint64_t pairs[most] = {};
  float results[most] = {};
  for (std::size_t count = 0; n != 0; n -= count, to += count) {
    count = std::min(n, most);
    take<Vector<std::uint32_t, sizeof(Pairs)>>(engine, reinterpret_cast<char*>(pairs), 2 * count);
    for (std::size_t i = 0; i < count; i += width) {
      Pairs y;
      std::memcpy(&y, pairs + i, sizeof y);
      y ^= (y >> 11) & (each * 0x001fffffU);
      y ^= (y << 7) & (each * 0x9d2c5680U);
      y ^= (y << 15) & (each * 0xefc60000U);
      y ^= (y >> 18) & (each * 0x00003fffU);
      y = ((y & 0x001fffffU) << 32) | (y >> 32);
      y = (y - bound) >> 63;  // 1 where it is less
      for (std::size_t k = 0; k != width; ++k) results[i + k] = static_cast<float>(static_cast<std::int32_t>(y[k]));
    }
    std::memcpy(to, results, count * sizeof(float));
  }
}

}  // namespace twister

/// aten::bernoulli_ with one probability: 1 where the next random number in [0, 1) is less than it, else 0. LibTorch
/// calls its generator twice for each element; this takes the numbers of a refilled generator several at a time.
FULGURITE_BULK_BODY void bernoulli(SmallCall const& c) {
  auto generator = c.generator.defined() ? c.generator : cpu_generator();
  auto* const source = generator.get<at::CPUGeneratorImpl>();
  std::lock_guard const lock(source->mutex_);
  auto engine = source->engine();
  auto data = engine.data();
  auto const bound = static_cast<std::uint64_t>(std::ceil(std::ldexp(c.value, 53)));
  in_widest_vectors<std::uint64_t, 32>([&]<class Pairs>() __attribute__((always_inline)) {
    twister::bernoulli<Pairs>(c.to(), bound, static_cast<std::size_t>(c.columns), data);
  });
  engine.set_data(data);
  source->set_engine(engine);
}

#if defined(__x86_64__)

// A log softmax over rows, by the exponentials and logarithms that LibTorch's kernel calls. These are Sleef's, for 8 or
// 16 numbers at a time; LibTorch's library offers them.

extern "C" {
[[gnu::weak, gnu::target("avx512f")]] Vector<float, 64>
fulgurite_exp_512(Vector<float, 64> numbers) __asm__("Sleef_expf16_u10");
[[gnu::weak, gnu::target("avx512f")]] Vector<float, 64>
fulgurite_log_512(Vector<float, 64> numbers) __asm__("Sleef_logf16_u10");
[[gnu::weak, gnu::target("avx2")]] Vector<float, 32>
fulgurite_exp_256(Vector<float, 32> numbers) __asm__("Sleef_expf8_u10");
[[gnu::weak, gnu::target("avx2")]] Vector<float, 32>
fulgurite_log_256(Vector<float, 32> numbers) __asm__("Sleef_logf8_u10");
}

namespace softmax {

enum class Map : bool { exp, log };

/// Numbers behind the last one, up to a whole vector, are changed, too.
[[gnu::target("avx512f")]] inline void map_512(Map what, float* numbers, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) {
    Vector<float, 64> x;
    std::memcpy(&x, numbers + i, sizeof x);
    x = what == Map::exp ? fulgurite_exp_512(x) : fulgurite_log_512(x);
    std::memcpy(numbers + i, &x, sizeof x);
  }
}
[[gnu::target("avx2")]] inline void map_256(Map what, float* numbers, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 8) {
    Vector<float, 32> x;
    std::memcpy(&x, numbers + i, sizeof x);
    x = what == Map::exp ? fulgurite_exp_256(x) : fulgurite_log_256(x);
    std::memcpy(numbers + i, &x, sizeof x);
  }
}
inline void map(Map what, float* numbers, std::int64_t n, std::int64_t lanes) {
  if (lanes == 16) map_512(what, numbers, n);
  else map_256(what, numbers, n);
}

/// The largest of some numbers; if one is nan, the nan of LibTorch's vectors, all of whose bits are ones.
inline float largest(float const* x, std::int64_t n) {
  float most = x[0];
  bool any_nan = false;
  for (std::int64_t i = 1; i != n; ++i) {
    any_nan = any_nan || most != most || x[i] != x[i];
    most = most > x[i] ? most : x[i];
  }
  return any_nan ? std::bit_cast<float>(~std::uint32_t{0}) : most;
}

/// Sums a vector's lanes in parallel, and halves that at the end.
inline float sum(float const* x, std::int64_t n, std::int64_t lanes) {
  float part[16] = {x[0]};
  if (n < lanes) {
    for (std::int64_t i = 1; i != n; ++i) part[0] += x[i];
    return part[0];
  }
  std::copy_n(x, lanes, part);
  for (std::int64_t i = lanes; i != n; ++i) part[i % lanes] += x[i];
  for (auto half = lanes / 2; half != 0; half /= 2)
    for (std::int64_t i = 0; i != half; ++i) part[i] += part[i + half];
  return part[0];
}

/// to[i] = from[i] - x[i] factor, rounded once. A nan keeps its sign.
[[gnu::target("avx2,fma")]] inline void subtract_multiple(float* to, float const* from, float const* x, float factor,
                                                          std::int64_t n) {
  if (factor == factor) factor = -factor;
  for (std::int64_t i = 0; i != n; ++i) to[i] = __builtin_fmaf(x[i], factor, from[i]);
}

inline void forward(SmallCall const& c) {
  auto const rows = c.rows, columns = c.columns, size = rows * columns, lanes = c.number;
  auto const* const x = c.from(0);
  auto* const to = c.to();
  auto* const powers = scratch(0, size + rows + 32);
  auto* const sums = powers + (size + 15) / 16 * 16;
  for (std::int64_t i = 0; i != size; i += columns) {
    auto const most = largest(x + i, columns);
    for (auto j = i; j != i + columns; ++j) powers[j] = to[j] = x[j] - most;
  }
  map(Map::exp, powers, size, lanes);
  for (std::int64_t row = 0; row != rows; ++row) sums[row] = sum(powers + row * columns, columns, lanes);
  map(Map::log, sums, rows, lanes);
  for (std::int64_t row = 0; row != rows; ++row)
    for (auto j = row * columns; j != (row + 1) * columns; ++j) to[j] -= sums[row];
}

inline void backward(SmallCall const& c) {
  auto const columns = c.columns, size = c.rows * columns, lanes = c.number;
  auto const *const gradient = c.from(0), *const result = c.from(1);
  auto* const powers = scratch(0, size + 16);
  std::copy_n(result, size, powers);
  map(Map::exp, powers, size, lanes);
  for (std::int64_t i = 0; i != size; i += columns)
    subtract_multiple(c.to() + i, gradient + i, powers + i, sum(gradient + i, columns, lanes), columns);
}

/// Adds the candidate for the width of LibTorch's vectors, where its library offers Sleef's functions.
inline void add_candidate(std::vector<SmallCall>& all, SmallCall call, SmallCall::Function f, std::int64_t columns) {
  auto const capability = at::get_cpu_capability();
  bool const wide = capability == "AVX512";
  if (wide ? !fulgurite_exp_512 || !fulgurite_log_512
           : capability != "AVX2" || !fulgurite_exp_256 || !fulgurite_log_256)
    return;
  call.function = f;
  call.make_ready = nullptr;
  call.rows = call.columns / columns;
  call.columns = columns;
  call.number = wide ? 16 : 8;
  all.push_back(std::move(call));
}

}  // namespace softmax

#endif

/// A structured kernel of LibTorch looks at shapes and strides in meta(), which for few numbers takes longer than to
/// compute in impl(). Here the former happens once.
template <class Kernel, class... Arguments>
class ReadyStructured final : public ReadyKernel, Kernel {
 public:
  ReadyStructured(at::Tensor to, Arguments... arguments) : to_(std::move(to)), arguments_(std::move(arguments)...) {
    std::apply([&](auto const&... each) { this->meta(each...); }, arguments_);
  }
  void run() override {
    std::apply([&](auto const&... each) { this->impl(each..., to_); }, arguments_);
  }

 private:
  at::Tensor const& maybe_get_output(std::int64_t) override { return to_; }
  void set_output_strided(std::int64_t output, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options, at::DimnameList names) override {
    TORCH_CHECK(to_.strides() == strides);
    set_output_raw_strided(output, sizes, strides, options, names);
  }
  void set_output_raw_strided([[maybe_unused]] std::int64_t output, at::IntArrayRef sizes,
                              [[maybe_unused]] at::IntArrayRef strides, at::TensorOptions options,
                              [[maybe_unused]] at::DimnameList names) override {
    TORCH_CHECK(to_.sizes() == sizes && to_.scalar_type() == options.dtype());
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>)
      Kernel::set_output_raw_strided(output, sizes, strides, options, names);
  }

  at::Tensor to_;
  std::tuple<Arguments...> arguments_;
};

template <class Kernel, std::size_t inputs, auto... more>
SmallCall::Ready ready_structured(SmallCall const& c) {
  if constexpr (inputs == 1)
    return std::make_shared<ReadyStructured<Kernel, at::Tensor, decltype(more)...>>(c.out[0], c.in[0], more...);
  else
    return std::make_shared<ReadyStructured<Kernel, at::Tensor, at::Tensor, decltype(more)...>>(c.out[0], c.in[0],
                                                                                                c.in[1], more...);
}

FULGURITE_BULK_BODY float const* SmallCall::from(std::size_t i) const { return static_cast<float const*>(read[i]); }

FULGURITE_BULK_BODY std::int64_t const* SmallCall::classes() const {
  return static_cast<std::int64_t const*>(read[in.size() - 1]);
}

FULGURITE_BULK_BODY float* SmallCall::to(std::size_t i) const { return static_cast<float*>(written[i]); }

FULGURITE_BULK_BODY void SmallCall::look_up() {
  for (std::size_t i = 0; i != in.size(); ++i) read[i] = in[i].const_data_ptr();
  for (std::size_t i = 0; i != out.size(); ++i) written[i] = out[i].mutable_data_ptr();
  if (make_ready) ready = make_ready(*this);
}

FULGURITE_BULK_BODY at::Tensor& SmallCall::place() const { return const_cast<at::Tensor&>(out[0]); }

/// How BLAS reads a matrix: 'T' if it is stored column by column, and the distance between the starts of two rows or
/// columns; nullopt if there are gaps between its numbers.
FULGURITE_BULK_BODY std::optional<std::pair<char, int>> blas_form(at::Tensor const& matrix) {
  if (!matrix.is_non_overlapping_and_dense()) return std::nullopt;
  auto const rows = matrix.size(0), columns = matrix.size(1);
  auto const fits = [](std::int64_t stride, std::int64_t line) {
    return stride >= std::max(std::int64_t{1}, line) && stride <= std::numeric_limits<int>::max();
  };
  if (matrix.stride(1) == 1 && fits(matrix.stride(0), columns))
    return std::pair('N', static_cast<int>(matrix.stride(0)));
  if (matrix.stride(0) == 1 && fits(matrix.stride(1), rows)) return std::pair('T', static_cast<int>(matrix.stride(1)));
  return std::nullopt;
}

/// Interprets a call of an operator in its out variant, or of one that writes to its first argument, or of one that
/// allocates its results: these follow as further arguments.
class SmallCalls {
 public:
  using Function = SmallCall::Function;

  explicit SmallCalls(torch::jit::Stack const& arguments) : all_(arguments) {}

  bool is(std::size_t i, double number) const { return all_[i].isScalar() && all_[i].toScalar().toDouble() == number; }
  bool is_false(std::size_t i) const { return all_[i].isBool() && !all_[i].toBool(); }
  bool is_absent(std::size_t i) const {
    return all_[i].isNone() || (all_[i].isTensor() && !all_[i].toTensor().defined());
  }
  bool is_product(std::size_t result, std::size_t a, std::size_t b) const {
    return is_matrix(result) && is_plain_float(all_[a].toTensor()) && is_plain_float(all_[b].toTensor());
  }
  /// True for a dense float32 CPU tensor with few numbers.
  bool is_few(std::size_t i) const {
    if (!all_[i].isTensor() || !is_plain_float(all_[i].toTensor())) return false;
    auto const& tensor = all_[i].toTensor();
    return tensor.is_contiguous() && tensor.numel() != 0 && tensor.numel() < few_numbers;
  }
  bool is_number(std::size_t i) const { return is_few(i) && all_[i].toTensor().dim() == 0; }
  bool is_matrix(std::size_t i) const { return is_few(i) && all_[i].toTensor().dim() == 2; }

  SmallCall made(std::initializer_list<std::size_t> from, std::initializer_list<std::size_t> to, Function f) const {
    SmallCall call{f, {}, {}};
    for (auto const i : from) call.in.push_back(all_[i].toTensor());
    for (auto const i : to) call.out.push_back(all_[i].toTensor());
    return call;
  }

  /// A function of each element in tensors of one shape.
  std::vector<SmallCall> each(std::initializer_list<std::size_t> from, std::size_t to, Function f) const {
    for (auto const i : from)
      if (!is_few(i) || !is_few(to) || all_[i].toTensor().sizes() != all_[to].toTensor().sizes()) return {};
    auto call = made(from, {to}, f);
    call.columns = call.out[0].numel();
    return {call};
  }

  /// The same by LibTorch's kernel.
  std::vector<SmallCall> ready(std::initializer_list<std::size_t> from, std::size_t to,
                               SmallCall::Ready (*make)(SmallCall const&)) const {
    auto all = each(from, to, [](SmallCall const& c) { c.ready->run(); });
    for (auto& call : all) call.make_ready = make;
    return all;
  }
  std::vector<SmallCall> log_softmax(std::initializer_list<std::size_t> from, std::size_t to) const {
    bool const forward = from.size() == 1;
    auto const& x = all_[0].toTensor();
    auto const dim = all_[forward ? 1 : 2].toInt();
    if (!x.defined() || x.dim() == 0 || (dim != -1 && dim != x.dim() - 1)) return {};
    constexpr std::int64_t last = -1;
    std::vector<SmallCall> all;
    auto const theirs =
        ready(from, to,
              forward ? ready_structured<at::native::structured_log_softmax_cpu_out, 1, last, false>
                      : ready_structured<at::native::structured_log_softmax_backward_cpu_out, 2, last, at::kFloat>);
#if defined(__x86_64__)
    if (!theirs.empty())
      softmax::add_candidate(all, theirs[0], forward ? softmax::forward : softmax::backward, x.size(-1));
#endif
    all.insert(all.end(), theirs.begin(), theirs.end());
    return all;
  }

  /// `onto`: the product is added to the result. By BLAS itself, where LibTorch brings one, or by LibTorch's function,
  /// which looks at its arguments for longer than a small product takes.
  std::vector<SmallCall> product(std::size_t result, std::size_t a, std::size_t b, bool onto) const {
    if (!is_product(result, a, b)) return {};
    auto by_libtorch =
        onto ? made({a, b}, {result}, [](SmallCall const& c) { at::cpu::addmm_(c.place(), c.in[0], c.in[1]); })
             : made({a, b}, {result}, [](SmallCall const& c) { at::cpu::mm_out(c.place(), c.in[0], c.in[1]); });
    auto const &first = by_libtorch.in[0], &second = by_libtorch.in[1];
    auto const first_form = blas_form(first), second_form = blas_form(second);
    if (fulgurite_sgemm == nullptr || !first_form || !second_form || first.numel() == 0 || second.numel() == 0)
      return {by_libtorch};
    auto by_blas = by_libtorch;
    auto const extent = [](at::Tensor const& of, std::int64_t dim) { return static_cast<int>(of.size(dim)); };
    by_blas.product = {first_form->first, second_form->first, extent(first, 0),   extent(second, 1),
                       extent(first, 1),  first_form->second, second_form->second};
    by_blas.value = onto ? 1 : 0;
    by_blas.function = [](SmallCall const& c) {
      auto const& p = c.product;
      float const all = 1, kept = static_cast<float>(c.value);
      fulgurite_sgemm(&p.second, &p.first, &p.columns, &p.rows, &p.inner, &all, c.from(1), &p.second_stride, c.from(0),
                      &p.first_stride, &kept, c.to(), &p.columns);
    };
    return {by_blas, by_libtorch};
  }

  std::vector<SmallCall> mse() const {
    if (!is_few(0) || !is_few(1) || all_[2].toInt() != at::Reduction::Mean || !is_number(3)) return {};
    auto call = made({0, 1}, {3}, mean_of_squares);
    call.columns = call.in[0].numel();
    return call.in[0].sizes() == call.in[1].sizes() ? in_lanes(std::move(call)) : std::vector<SmallCall>();
  }
  std::vector<SmallCall> mse_backward() const {
    if (!is_number(0) || all_[3].toInt() != at::Reduction::Mean || !is_few(1) || !is_few(2) || !is_few(4)) return {};
    auto call = made({1, 2, 0}, {4}, native::mse_backward);
    call.columns = call.in[0].numel();
    if (call.in[0].sizes() != call.in[1].sizes() || call.out[0].numel() != call.columns) return {};
    return {call};
  }
  std::vector<SmallCall> divide() const {
    if (!is_few(0) || !all_[1].isDouble()) return {};
    auto call = made({}, {0}, native::divide);
    call.columns = call.out[0].numel();
    call.value = all_[1].toDouble();
    return {call};
  }
  std::vector<SmallCall> bernoulli() const {
    if (!is_few(0)) return {};
    auto call = made({}, {0}, native::bernoulli);
    call.columns = call.out[0].numel();
    call.value = all_[1].toDouble();
    if (!all_[2].isNone()) call.generator = all_[2].toGenerator();
    return {call};
  }

  /// The number of columns that LibTorch sums in the plain order depends on the width of its registers, and it has
  /// kernels for several widths.
  std::vector<SmallCall> column_sums() const {
    if (!is_matrix(0) || !is_few(4) || !all_[1].isIntList() || all_[1].toIntVector() != std::vector<std::int64_t>{0})
      return {};
    auto call = made({0}, {4}, native::column_sums);
    call.plus_zero = true;
    call.rows = call.in[0].size(0);
    call.columns = call.in[0].size(1);
    if (call.out[0].numel() != call.columns) return {};
    if (call.columns == 1) {
      call.function = [](SmallCall const& c) {
        *c.to() = sum_in_lanes(c.rows, c.number, [x = c.from(0)](std::int64_t i) { return x[i]; });
      };
      return in_lanes(std::move(call));
    }
    std::vector<SmallCall> all;
    for (std::int64_t const lanes : {16, 8, 4}) {
      auto const at_once = call.columns >= lanes ? 4 * lanes : 4;
      call.number = call.columns / at_once * at_once;
      if (std::none_of(all.begin(), all.end(), [&](auto const& other) { return other.number == call.number; }))
        all.push_back(call);
    }
    return all;
  }

  /// True for a mean over integer classes without weights.
  bool is_nll(std::size_t x, std::size_t target, std::size_t weight, std::size_t reduction) const {
    if (!is_matrix(x) || !all_[target].isTensor() || !is_absent(weight)) return false;
    auto const& classes = all_[target].toTensor();
    return classes.scalar_type() == at::kLong && classes.is_contiguous() && classes.dim() == 1 && classes.is_cpu() &&
           classes.size(0) == all_[x].toTensor().size(0) && all_[reduction].toInt() == at::Reduction::Mean;
  }
  std::vector<SmallCall> nll_loss() const {
    if (!is_nll(0, 1, 2, 3) || !is_number(5) || !is_number(6)) return {};
    auto const call = made({0, 1}, {5, 6}, native::nll_loss);
    return with_matrix(call, call.in[0], all_[4].toInt());
  }
  std::vector<SmallCall> nll_loss_backward() const {
    if (!is_number(0) || !is_nll(1, 2, 3, 4) || !is_number(6) || !is_few(7)) return {};
    auto const call = made({0, 6, 2}, {7}, native::nll_loss_backward);
    if (call.out[0].sizes() != all_[1].toTensor().sizes()) return {};
    return with_matrix(call, call.out[0], all_[5].toInt());
  }
  /// One candidate for each width of registers that LibTorch has kernels for.
  static std::vector<SmallCall> in_lanes(SmallCall call) {
    std::vector<SmallCall> all;
    for (std::int64_t const lanes : {16, 8, 4}) {
      call.number = lanes;
      all.push_back(call);
    }
    return all;
  }
  static std::vector<SmallCall> with_matrix(SmallCall call, at::Tensor const& matrix, std::int64_t number) {
    call.rows = matrix.size(0);
    call.columns = matrix.size(1);
    call.number = number;
    return {call};
  }

 private:
  torch::jit::Stack const& all_;
};

FULGURITE_BULK_BODY std::vector<SmallCall> small_calls(std::string_view name, torch::jit::Stack const& arguments) {
  SmallCalls const call(arguments);
  if (name == "aten::clamp_min.out" && call.is(1, 0)) return call.each({0}, 2, relu);
  if (name == "aten::threshold_backward.grad_input" && call.is(2, 0)) return call.each({0, 1}, 3, relu_backward);
  if (name == "aten::add.out" && call.is(2, 1)) return call.each({0, 1}, 3, add);
  if (name == "aten::mul.out") return call.each({0, 1}, 2, multiply);
  if (name == "aten::div_.Scalar") return call.divide();
  if (name == "aten::bernoulli_.float") return call.bernoulli();
  if (name == "aten::mse_loss") return call.mse();
  if (name == "aten::mse_loss_backward.grad_input") return call.mse_backward();
  if (name == "aten::sum.IntList_out") return call.column_sums();
  if (name == "aten::nll_loss_forward.output") return call.nll_loss();
  if (name == "aten::nll_loss_backward.grad_input") return call.nll_loss_backward();
  // LibTorch's own arithmetic, called directly and not through the dispatcher.
  namespace theirs = at::native;
  if (name == "aten::_log_softmax.out" && call.is_false(2)) return call.log_softmax({0}, 3);
  if (name == "aten::_log_softmax_backward_data.out") return call.log_softmax({0, 1}, 4);
  if (name == "aten::mm.out") return call.product(2, 0, 1, false);
  if (name == "aten::addmm_" && call.is(3, 1) && call.is(4, 1)) return call.product(0, 1, 2, true);
  if (name == "aten::tanh.out") return call.ready({0}, 1, ready_structured<theirs::structured_tanh_out, 1>);
  if (name == "aten::sigmoid.out") return call.ready({0}, 1, ready_structured<theirs::structured_sigmoid_out, 1>);
  if (name == "aten::tanh_backward.grad_input")
    return call.ready({0, 1}, 2, ready_structured<theirs::structured_tanh_backward_out, 2>);
  if (name == "aten::sigmoid_backward.grad_input")
    return call.ready({0, 1}, 2, ready_structured<theirs::structured_sigmoid_backward_out, 2>);
  return {};
}

}  // namespace fulgurite::libtorch::native
