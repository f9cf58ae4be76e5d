#pragma once
// The update rules of Adam, AdamW, RMSprop, Adagrad and SGD, each written once for tensors, for blocks of numbers with
// the roundings of LibTorch's kernels, and for what is written down for a GPU.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>
#include <c10/core/ScalarType.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch {

// A block of numbers with at::Tensor's operations under the same names, so that an update rule is written once for
// both.

/// to[i] = the square root of from[i], for n numbers, a multiple of 64 bytes.
template <class T>
using Roots = void (*)(int n, T const* from, T* to);

/// A function with the bits of LibTorch's square root: MKL's, which LibTorch calls, without the tensors and iterators
/// around it, or the same operations in less time. Null if LibTorch's library does not offer MKL's, or if a trial finds
/// other bits than LibTorch's.
template <class T>
Roots<T> roots_of_libtorch();
FULGURITE_EXTERN(Roots<float> roots_of_libtorch());
FULGURITE_EXTERN(Roots<double> roots_of_libtorch());

/// Memory for intermediate results, for one block at a time. Each thread has its own.
template <class T>
class Scratch {
 public:
  static constexpr std::size_t most =
      8192;  ///< numbers in a block, which with gradient, states and results fits into the L2 cache

  static Scratch& of_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
  T* fresh() { return data_.at(used_++); }
  void clear() { used_ = 0; }
  /// A fresh block with LibTorch's square root of each number. LibTorch uses MKL's, which differs from the processor's
  /// in the last bit.
  [[gnu::noinline]] T* roots(T const* from, std::size_t size) {
    auto* const to = fresh();
    if (roots_) {
      roots_(static_cast<int>(size), from, to);
    } else {
      std::copy_n(from, size, to);
      auto& tensor = tensors_[used_ - 1];
      tensor.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<std::int64_t>(size));
      at::cpu::sqrt_(tensor);
    }
    return to;
  }

 private:
  Scratch() {
    for (std::size_t i = 0; i != tensors_.size(); ++i) {
      tensors_[i] = at::ones({most}, at::TensorOptions(c10::CppTypeToScalarType<T>::value));
      data_[i] = static_cast<T*>(tensors_[i].mutable_data_ptr());
    }
  }
  Roots<T> roots_ = roots_of_libtorch<T>();
  std::array<at::Tensor, 4> tensors_;
  std::array<T*, 4> data_{};
  std::size_t used_ = 0;
};

/// A block of numbers whose operations round exactly as LibTorch's CPU kernels do. `Fused`: as its AVX2 and AVX-512
/// kernels, in which x + alpha * y is rounded once; otherwise as its plain kernels. A block ends where a slice of an
/// arena ends, at a multiple of 64 bytes. `alpha * y` and division are never contracted.
template <class T, bool Fused>
class Block {
 public:
  Block(T* data, std::size_t size, Scratch<T>& scratch) : data_(data), size_(size), scratch_(&scratch) {}

  [[gnu::always_inline]] Block const& mul_(double factor) const {
    return change([s = static_cast<T>(factor)](T x) __attribute__((always_inline)) { return x * s; });
  }
  [[gnu::always_inline]] Block const& add_(double summand) const {
    return change([s = static_cast<T>(summand)](T x) __attribute__((always_inline)) { return x + s; });
  }
  [[gnu::always_inline]] Block const& add_(Block const& y, double alpha) const { return change(sum(alpha), y); }
  [[gnu::always_inline]] Block add(Block const& y, double alpha) const { return result(sum(alpha), y); }
  [[gnu::always_inline]] Block const& addcmul_(Block const& a, Block const& b, double value) const {
    return change(sum_of_products(value), a, b);
  }
  [[gnu::always_inline]] Block addcmul(Block const& a, Block const& b, double value) const {
    return result(sum_of_products(value), a, b);
  }
  [[gnu::always_inline]] Block const& addcdiv_(Block const& a, Block const& b, double value = 1.0) const {
    return change([s = static_cast<T>(value)](T x, T y, T z) __attribute__((always_inline)) { return x + s * y / z; },
                  a, b);
  }
  [[gnu::always_inline]] Block sqrt() const { return Block(scratch_->roots(data_, size_), size_, *scratch_); }
  /// The same numbers with -0 replaced by 0.
  [[gnu::always_inline]] Block plus_zero() const {
    return result([](T x) __attribute__((always_inline)) { return x + T(0); });
  }
  [[gnu::always_inline]] Block const& copy_(Block const& from) const {
    return change([](T, T y) __attribute__((always_inline)) { return y; }, from);
  }
  /// Sets each number to the maximum of both; nan if one of them is nan.
  [[gnu::always_inline]] friend void take_maximum(Block const& x, Block const& other) {
    x.change([](T a, T b) __attribute__((always_inline)) { return b > a || b != b ? b : a; }, other);
  }

  // The functions below in one loop over the block, with the same roundings.
  [[gnu::always_inline]] friend void scale_and_add(Block const& x, double factor, Block const& y, double alpha) {
    x.change([f = static_cast<T>(factor), add = sum(alpha)](T a, T b)
                 __attribute__((always_inline)) { return add(a * f, b); },
             y);
  }
  [[gnu::always_inline]] friend void scale_and_addcmul(Block const& x, double factor, Block const& y, Block const& z,
                                                       double value) {
    x.change([f = static_cast<T>(factor), add = sum_of_products(value)](T a, T b, T c)
                 __attribute__((always_inline)) { return add(a * f, b, c); },
             y, z);
  }
  [[gnu::always_inline]] friend void add_quotient(Block const& to, Block const& x, Block const& root, double divisor,
                                                  double eps, double value) {
    to.change([d = static_cast<T>(divisor), e = static_cast<T>(eps), s = static_cast<T>(value)](T a, T b, T c)
                  __attribute__((always_inline)) { return a + s * b / (c / d + e); },
              x, root);
  }

 private:
  /// Sets each number of this block to f(number, more...).
  template <class F, class... Blocks>
  [[gnu::always_inline]] Block const& change(F f, Blocks const&... more) const {
    in_place(f, size_, data_, more.data_...);
    return *this;
  }
  template <class F, class... Blocks>
  [[gnu::always_inline]] Block result(F f, Blocks const&... more) const {
    Block const to(scratch_->fresh(), size_, *scratch_);
    elsewhere(f, size_, to.data_, data_, more.data_...);
    return to;
  }

  // The pointer does not alias others and portions have a constant length, so that both compilers vectorise the loop at
  // -O2.
  template <class F, class... Pointers>
  [[gnu::always_inline]] static void in_place(F f, std::size_t size, T* __restrict to, Pointers... from) {
    for (std::size_t begin = 0; begin < size; begin += portion) {
      for (std::size_t i = 0; i != portion; ++i) to[begin + i] = f(to[begin + i], from[begin + i]...);
    }
  }
  template <class F, class... Pointers>
  [[gnu::always_inline]] static void elsewhere(F f, std::size_t size, T* __restrict to, Pointers... from) {
    for (std::size_t begin = 0; begin < size; begin += portion) {
      for (std::size_t i = 0; i != portion; ++i) to[begin + i] = f(from[begin + i]...);
    }
  }
  static constexpr std::size_t portion = 64 / sizeof(T);

  [[gnu::always_inline]] static auto sum(double alpha) {
    return [s = static_cast<T>(alpha)](T x, T y) __attribute__((always_inline)) {
      if constexpr (Fused) return std::fma(y, s, x);
      else return x + s * y;
    };
  }
  [[gnu::always_inline]] static auto sum_of_products(double value) {
    return [s = static_cast<T>(value)](T x, T y, T z) __attribute__((always_inline)) {
      if constexpr (Fused) return std::fma(s * y, z, x);
      else return x + s * y * z;
    };
  }
  T* data_;
  std::size_t size_;
  Scratch<T>* scratch_;
};

/// The same operation on tensors.
void take_maximum(at::Tensor& x, at::Tensor const& other);

// What follows one after the other in an update rule. Blocks have functions of their own, which are found by their
// arguments.

/// x = x * factor + y * alpha
template <class V>
void scale_and_add(V const& x, double factor, V const& y, double alpha) {
  x.mul_(factor).add_(y, alpha);
}
/// x = x * factor + y * z * value
template <class V>
void scale_and_addcmul(V const& x, double factor, V const& y, V const& z, double value) {
  x.mul_(factor).addcmul_(y, z, value);
}
/// to = to + x / (root / divisor + eps) * value; `root` may be overwritten
template <class V>
void add_quotient(V const& to, V const& x, V const& root, double divisor, double eps, double value) {
  to.addcdiv_(x, root.div_(divisor).add_(eps), value);
}

// Runs an update rule block by block, where LibTorch's CPU kernels are known to be matched bit for bit.

/// One pass: each block is read, updated and written while it is in the cache. `apart`: the gradient is in the memory
/// that backward allocated, and was not added to zero.
template <bool Fused, class T, std::size_t N, class Rule>
[[gnu::always_inline]] inline void blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                          std::array<T*, N> const& states, std::size_t size) {
  auto& scratch = Scratch<T>::of_thread();
  for (std::size_t from = 0; from < size; from += Scratch<T>::most) {
    auto const length = std::min(size - from, Scratch<T>::most);
    scratch.clear();
    auto const block = [&](T* data) __attribute__((always_inline)) {
      return Block<T, Fused>(data == nullptr ? nullptr : data + from, length, scratch);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
      auto const gradient = block(gradients);
      rule(block(parameters), apart ? gradient.plus_zero() : gradient, block(states[I])...);
    }(std::make_index_sequence<N>{});
  }
}

#if defined(__x86_64__)
/// Compiled for processors for which LibTorch has kernels with fused multiply-add, whatever the target of the rest of
/// the program is.
template <class T, std::size_t N, class Rule>
[[gnu::target("avx2,fma"), gnu::noinline]] void fused_blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                                             std::array<T*, N> const& states, std::size_t size) {
  blocks<true>(rule, parameters, gradients, apart, states, size);
}
template <class T, std::size_t N, class Rule>
[[gnu::noinline]] void plain_blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                    std::array<T*, N> const& states, std::size_t size) {
  blocks<false>(rule, parameters, gradients, apart, states, size);
}

/// True if LibTorch uses its AVX2 or AVX-512 kernels, which ATEN_CPU_CAPABILITY=default disables.
bool libtorch_fuses();

/// The numbers of one step of Adam or AdamW, rounded as LibTorch's kernels round them.
struct AdamNumbers {
  enum class Decay : std::uint8_t { none, of_gradient, decoupled };

  float beta1, rest1, beta2, rest2;  ///< the decays, and 1 minus each
  float divisor, eps, rate;          ///< parameter += rate * mean / (root / divisor + eps)
  Decay kind;                        ///< of the weights
  /// of_gradient: this share of a parameter is added to its gradient. decoupled: each parameter is multiplied by it.
  float decay;
};
/// Adam without amsgrad in one loop over floats, a multiple of 16, in place of a loop for each operation of a block.
/// False, and nothing is done, on processors without AVX-512, or if the bits of LibTorch's square roots are not known.
bool adam_in_one_loop(AdamNumbers const& by, float* parameters, float const* gradients, bool apart, float* mean,
                      float* square, std::size_t size);

/// The blocks that round as LibTorch's kernels do on this processor.
template <class T, std::size_t N, class Rule>
void as_libtorch_rounds(Rule const& rule, T* parameters, T* gradients, bool apart, std::array<T*, N> const& states,
                        std::size_t size) {
  if constexpr (requires { rule.in_one_loop(parameters, gradients, apart, states, size); })
    if (rule.in_one_loop(parameters, gradients, apart, states, size)) return;
  if (libtorch_fuses()) fused_blocks<T, N>(rule, parameters, gradients, apart, states, size);
  else plain_blocks<T, N>(rule, parameters, gradients, apart, states, size);
}
#endif

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

/// Throws [fulgurite.optim.option] with the value, and the rule that it breaks.
[[noreturn]] void refuse_option(std::string_view optimizer, std::string_view option, std::string_view value,
                                std::string_view rule);
/// Throws it for a number that is out of range.
void require_option(bool holds, std::string_view optimizer, std::string_view option, double value);

/// Options of optim::Adam, with the names and defaults of torch.optim.Adam. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct AdamOptions {
  double lr = 1e-3;                            ///< the learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the running means of the gradient and of its square
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 0;                     ///< this multiple of the parameter is added to the gradient
  bool amsgrad = false;                        ///< divide by the largest running mean of the square so far

  void state(auto& archive);
};

/// Options of optim::AdamW, with the names and defaults of torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;                            ///< the learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the running means of the gradient and of its square
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 1e-2;                  ///< each step shrinks the parameter itself by this share, times the rate
  bool amsgrad = false;                        ///< divide by the largest running mean of the square so far

  void state(auto& archive);
};

/// Options of optim::RMSprop, with the names and defaults of torch.optim.RMSprop. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct RMSpropOptions {
  double lr = 1e-2;         ///< the learning rate
  double alpha = 0.99;      ///< decay of the running mean of the squared gradient
  double eps = 1e-8;        ///< added to the denominator
  double weight_decay = 0;  ///< this multiple of the parameter is added to the gradient
  double momentum = 0;      ///< decay of the running sum of updates; 0: none
  bool centered = false;    ///< subtract the squared mean of the gradient: its variance instead of its square

  void state(auto& archive);
};

/// Options of optim::Adagrad, with the names and defaults of torch.optim.Adagrad. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct AdagradOptions {
  double lr = 1e-2;                      ///< the learning rate
  double lr_decay = 0;                   ///< the rate is divided by 1 + lr_decay * steps
  double weight_decay = 0;               ///< this multiple of the parameter is added to the gradient
  double initial_accumulator_value = 0;  ///< where the sums of squared gradients start
  double eps = 1e-10;                    ///< added to the denominator

  void state(auto& archive);
};

/// Options of optim::SGD, with the names and defaults of torch.optim.SGD. The constructor throws
/// [fulgurite.optim.option] for a value out of range.
struct SGDOptions {
  double lr = 1e-3;         ///< the learning rate
  double momentum = 0;      ///< decay of the running sum of updates; 0: none
  double dampening = 0;     ///< the share of the gradient that the momentum does not take
  double weight_decay = 0;  ///< this multiple of the parameter is added to the gradient
  bool nesterov = false;    ///< look ahead along the momentum; requires momentum > 0 and dampening = 0

  void state(auto& archive);
};

namespace rule {

// For tensors, whose namespace is another one.
using libtorch::add_quotient;
using libtorch::scale_and_add;
using libtorch::scale_and_addcmul;
using libtorch::take_maximum;

/// `Decoupled`: weight decay acts on the parameter, as in AdamW.
template <class O, bool Decoupled>
struct Adam {
  using Options = O;
  static constexpr std::string_view name = Decoupled ? "AdamW" : "Adam";
  static constexpr std::array<std::string_view, 3> states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  static std::array<std::optional<double>, 3> initial(Options const& o) {
    return {0.0, 0.0, o.amsgrad ? std::optional(0.0) : std::nullopt};
  }
  static void check(Options const& o) {
    require_option(o.lr >= 0, name, "lr", o.lr);
    require_option(o.eps >= 0, name, "eps", o.eps);
    require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
    for (auto const beta : o.betas) require_option(beta >= 0 && beta < 1, name, "betas", beta);
  }
  static std::optional<double> momentum(Options const& o) { return o.betas[0]; }
  static void set_momentum(Options& o, double value) { o.betas[0] = value; }

  Adam(Options const& o, long steps_before)
      : o_(o),
        kept_(1 - o.lr * o.weight_decay),
        correction1_(1 - std::pow(o.betas[0], static_cast<double>(steps_before + 1))),
        correction2_(1 - std::pow(o.betas[1], static_cast<double>(steps_before + 1))) {}

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V exp_avg, V exp_avg_sq, V max_exp_avg_sq) const {
    if (o_.weight_decay != 0) {
      if constexpr (Decoupled) p.mul_(kept_);
      else g = g.add(p, o_.weight_decay);
    }
    scale_and_add(exp_avg, o_.betas[0], g, 1 - o_.betas[0]);
    scale_and_addcmul(exp_avg_sq, o_.betas[1], g, g, 1 - o_.betas[1]);
    if (o_.amsgrad) take_maximum(max_exp_avg_sq, exp_avg_sq);
    auto const root = (o_.amsgrad ? max_exp_avg_sq : exp_avg_sq).sqrt();
    add_quotient(p, exp_avg, root, std::sqrt(correction2_), o_.eps, -(o_.lr / correction1_));
  }

#if defined(__x86_64__)
  /// The same in one loop; false if there is none, and nothing is done.
  bool in_one_loop(float* p, float const* g, bool apart, std::array<float*, 3> const& moments, std::size_t size) const {
    if (o_.amsgrad) return false;
    using Decay = libtorch::AdamNumbers::Decay;
    auto const rounded = [](double number) { return static_cast<float>(number); };
    return libtorch::adam_in_one_loop({.beta1 = rounded(o_.betas[0]),
                                       .rest1 = rounded(1 - o_.betas[0]),
                                       .beta2 = rounded(o_.betas[1]),
                                       .rest2 = rounded(1 - o_.betas[1]),
                                       .divisor = rounded(std::sqrt(correction2_)),
                                       .eps = rounded(o_.eps),
                                       .rate = rounded(-(o_.lr / correction1_)),
                                       .kind = o_.weight_decay == 0 ? Decay::none
                                               : Decoupled          ? Decay::decoupled
                                                                    : Decay::of_gradient,
                                       .decay = rounded(Decoupled ? kept_ : o_.weight_decay)},
                                      p, g, apart, moments[0], moments[1], size);
  }
#endif

 private:
  Options o_;
  double kept_, correction1_, correction2_;
};

/// The update rule of RMSprop, for one run of the arena.
struct RMSprop {
  using Options = RMSpropOptions;
  static constexpr std::string_view name = "RMSprop";
  static constexpr std::array<std::string_view, 3> states = {"square_avg", "momentum_buffer", "grad_avg"};
  static std::array<std::optional<double>, 3> initial(Options const& o);
  static void check(Options const& o);
  static std::optional<double> momentum(Options const& o) { return o.momentum; }
  static void set_momentum(Options& o, double value) { o.momentum = value; }

  RMSprop(Options const& o, long) : o_(o) {}

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V square_avg, V momentum_buffer, V grad_avg) const {
    if (o_.weight_decay != 0) g = g.add(p, o_.weight_decay);
    scale_and_addcmul(square_avg, o_.alpha, g, g, 1 - o_.alpha);
    if (o_.centered) scale_and_add(grad_avg, o_.alpha, g, 1 - o_.alpha);
    auto const average = (o_.centered ? square_avg.addcmul(grad_avg, grad_avg, -1) : square_avg).sqrt().add_(o_.eps);
    if (o_.momentum > 0) {
      momentum_buffer.mul_(o_.momentum).addcdiv_(g, average);
      p.add_(momentum_buffer, -o_.lr);
    } else {
      p.addcdiv_(g, average, -o_.lr);
    }
  }

 private:
  Options o_;
};

/// The update rule of Adagrad, for one run of the arena.
struct Adagrad {
  using Options = AdagradOptions;
  static constexpr std::string_view name = "Adagrad";
  static constexpr std::array<std::string_view, 1> states = {"sum"};
  static std::array<std::optional<double>, 1> initial(Options const& o) { return {o.initial_accumulator_value}; }
  static void check(Options const& o);
  static std::optional<double> momentum(Options const&) { return std::nullopt; }

  Adagrad(Options const& o, long steps_before);

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V sum) const {
    if (o_.weight_decay != 0) g = g.add(p, o_.weight_decay);
    sum.addcmul_(g, g, 1.0);
    p.addcdiv_(g, sum.sqrt().add_(o_.eps), -rate_);
  }

 private:
  Options o_;
  double rate_;
};

/// The update rule of SGD, for one run of the arena.
struct SGD {
  using Options = SGDOptions;
  static constexpr std::string_view name = "SGD";
  static constexpr std::array<std::string_view, 1> states = {"momentum_buffer"};
  static std::array<std::optional<double>, 1> initial(Options const& o);
  static void check(Options const& o);
  static std::optional<double> momentum(Options const& o) { return o.momentum; }
  static void set_momentum(Options& o, double value) { o.momentum = value; }

  SGD(Options const& o, long steps_before);

  template <class V>
  [[gnu::always_inline]] void operator()(V p, V g, V momentum_buffer) const {
    if (o_.weight_decay != 0) g = g.add(p, o_.weight_decay);
    if (o_.momentum != 0) {
      if (first_) momentum_buffer.copy_(g);
      else scale_and_add(momentum_buffer, o_.momentum, g, 1 - o_.dampening);
      g = o_.nesterov ? g.add(momentum_buffer, o_.momentum) : momentum_buffer;
    }
    p.add_(g, -1 * o_.lr);
  }

 private:
  Options o_;
  bool first_;
};

}  // namespace rule

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/rules.ipp>
#endif
