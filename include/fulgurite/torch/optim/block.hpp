#pragma once
// A block of numbers with the operations of at::Tensor under the same names, so that one text of an update rule serves
// for both.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>

namespace fulgurite::libtorch {

/// Memory for results that are no state of the optimizer, for one block at a time. Each thread has its own.
template <class T>
class Scratch {
 public:
  static constexpr std::size_t most =
      8192;  ///< numbers in a block: with gradient, states and results it stays in the second cache

  static Scratch& of_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
  T* fresh() { return data_.at(used_++); }
  void clear() { used_ = 0; }
  /// LibTorch's square root of the block that `fresh` gave last. It is MKL's, which differs from the processor's in the
  /// last bit.
  [[gnu::noinline]] void take_root(std::size_t size) {
    auto& tensor = tensors_[used_ - 1];
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<std::int64_t>(size));
    at::cpu::sqrt_(tensor);
  }

 private:
  Scratch() {
    for (std::size_t i = 0; i != tensors_.size(); ++i) {
      tensors_[i] = at::ones({most}, at::TensorOptions(c10::CppTypeToScalarType<T>::value));
      data_[i] = static_cast<T*>(tensors_[i].mutable_data_ptr());
    }
  }
  std::array<at::Tensor, 4> tensors_;
  std::array<T*, 4> data_{};
  std::size_t used_ = 0;
};

/// A block of numbers whose operations round where LibTorch's CPU kernels round. With `Fused` as LibTorch's AVX2 and
/// AVX-512 kernels do, in which x + alpha * y is rounded once; else as its plain ones. A block ends where a slice of an
/// arena ends, at a multiple of 64 bytes. `alpha * y` and division are never contracted.
template <class T, bool Fused>
class Block {
 public:
  Block(T* data, std::size_t size, Scratch<T>& scratch) : data_(data), size_(size), scratch_(&scratch) {}

  [[gnu::always_inline]] Block const& mul_(double factor) const {
    return change([s = static_cast<T>(factor)](T x) __attribute__((always_inline)) { return x * s; });
  }
  [[gnu::always_inline]] Block const& div_(double divisor) const {
    return change([s = static_cast<T>(divisor)](T x) __attribute__((always_inline)) { return x / s; });
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
  [[gnu::always_inline]] Block sqrt() const {
    auto const to = result([](T x) __attribute__((always_inline)) { return x; });
    scratch_->take_root(size_);
    return to;
  }
  /// The same numbers, but that -0 is 0.
  [[gnu::always_inline]] Block plus_zero() const {
    return result([](T x) __attribute__((always_inline)) { return x + T(0); });
  }
  [[gnu::always_inline]] Block const& copy_(Block const& from) const {
    return change([](T, T y) __attribute__((always_inline)) { return y; }, from);
  }
  /// The greater of both numbers; nan if one of them is.
  [[gnu::always_inline]] Block const& take_maximum(Block const& other) const {
    return change([](T x, T y) __attribute__((always_inline)) { return y > x || y != y ? y : x; }, other);
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

  // Nobody else reads what is written here, and portions have a constant length: so both compilers vectorise the loop
  // at -O2.
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
inline void take_maximum(at::Tensor& x, at::Tensor const& other) { at::maximum_out(x, x, other); }
template <class T, bool Fused>
[[gnu::always_inline]] inline void take_maximum(Block<T, Fused> const& x, Block<T, Fused> const& other) {
  x.take_maximum(other);
}

}  // namespace fulgurite::libtorch
