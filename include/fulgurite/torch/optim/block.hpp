#pragma once
// A block of numbers under the names that at::Tensor gives its operations, so that one text of an update rule serves both.

#include <array>
#include <cmath>
#include <cstddef>

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>

namespace fulgurite::libtorch {

#if defined(__clang__)
#define FULGURITE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FULGURITE_INDEPENDENT _Pragma("GCC ivdep")
#endif

/// Memory for results that are no states, for one block at a time. One of each thread.
template <class T>
class Scratch {
 public:
  static constexpr std::size_t most = 2048;  ///< numbers in a block: with gradient, states and results it stays in a near cache

  static Scratch& of_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
  T* fresh() { return data_[used_++]; }
  void clear() { used_ = 0; }
  /// LibTorch's square root, which is MKL's and rounds otherwise than the processor's in the last bit; of what `fresh` gave last.
  [[gnu::noinline]] void take_root() { tensors_[used_ - 1].sqrt_(); }

 private:
  Scratch() {
    for (std::size_t i = 0; i != tensors_.size(); ++i) {
      tensors_[i] = at::ones({most}, at::TensorOptions(c10::CppTypeToScalarType<T>::value));
      data_[i] = static_cast<T*>(tensors_[i].mutable_data_ptr());
    }
  }
  std::array<at::Tensor, 3> tensors_;
  std::array<T*, 3> data_{};
  std::size_t used_ = 0;
};

/// Rounds where LibTorch's CPU kernels round. `Fused`: as its AVX2 and AVX-512 kernels, whose x + alpha * y has one rounding; else as its
/// plain ones. A block ends where a slice of an arena ends, at a multiple of 64 bytes. `alpha * y` and division are never contracted.
template <class T, bool Fused>
class Block {
 public:
  Block(T* data, std::size_t size, Scratch<T>& scratch) : data_(data), size_(size), scratch_(&scratch) {}

  [[gnu::always_inline]] Block const& mul_(double factor) const {
    auto const s = static_cast<T>(factor);
    each([x = data_, s](std::size_t i) __attribute__((always_inline)) { x[i] *= s; });
    return *this;
  }
  [[gnu::always_inline]] Block const& div_(double divisor) const {
    auto const s = static_cast<T>(divisor);
    each([x = data_, s](std::size_t i) __attribute__((always_inline)) { x[i] /= s; });
    return *this;
  }
  [[gnu::always_inline]] Block const& add_(double summand) const {
    auto const s = static_cast<T>(summand);
    each([x = data_, s](std::size_t i) __attribute__((always_inline)) { x[i] += s; });
    return *this;
  }
  [[gnu::always_inline]] Block const& add_(Block const& y, double alpha) const {
    sum(data_, data_, y.data_, static_cast<T>(alpha));
    return *this;
  }
  [[gnu::always_inline]] Block add(Block const& y, double alpha) const {
    auto const to = result();
    sum(to.data_, data_, y.data_, static_cast<T>(alpha));
    return to;
  }
  [[gnu::always_inline]] Block const& addcmul_(Block const& a, Block const& b, double value) const {
    sum_of_products(data_, data_, a.data_, b.data_, static_cast<T>(value));
    return *this;
  }
  [[gnu::always_inline]] Block addcmul(Block const& a, Block const& b, double value) const {
    auto const to = result();
    sum_of_products(to.data_, data_, a.data_, b.data_, static_cast<T>(value));
    return to;
  }
  [[gnu::always_inline]] Block const& addcdiv_(Block const& a, Block const& b, double value = 1.0) const {
    each([x = data_, a = a.data_, b = b.data_, s = static_cast<T>(value)](std::size_t i) __attribute__((always_inline)) { x[i] += s * a[i] / b[i]; });
    return *this;
  }
  [[gnu::always_inline]] Block sqrt() const {
    auto const to = result();
    to.copy_(*this);
    scratch_->take_root();
    return to;
  }
  [[gnu::always_inline]] Block const& copy_(Block const& from) const {
    each([x = data_, y = from.data_](std::size_t i) __attribute__((always_inline)) { x[i] = y[i]; });
    return *this;
  }
  /// The greater of both; a nan wins.
  [[gnu::always_inline]] Block const& take_maximum(Block const& other) const {
    each([x = data_, y = other.data_](std::size_t i) __attribute__((always_inline)) { x[i] = y[i] > x[i] || y[i] != y[i] ? y[i] : x[i]; });
    return *this;
  }

 private:
  /// f(i) for all, in portions that have a constant length: then compilers vectorise at -O2, too.
  template <class F>
  [[gnu::always_inline]] void each(F&& f) const {
    constexpr std::size_t portion = 64 / sizeof(T);
    for (std::size_t from = 0; from < size_; from += portion) {
      FULGURITE_INDEPENDENT
      for (std::size_t i = from; i < from + portion; ++i) f(i);
    }
  }

  [[gnu::always_inline]] Block result() const { return Block(scratch_->fresh(), size_, *scratch_); }

  [[gnu::always_inline]] void sum(T* to, T const* x, T const* y, T alpha) const {
    each([=](std::size_t i) __attribute__((always_inline)) {
      if constexpr (Fused) to[i] = std::fma(y[i], alpha, x[i]);
      else to[i] = x[i] + alpha * y[i];
    });
  }
  [[gnu::always_inline]] void sum_of_products(T* to, T const* x, T const* a, T const* b, T value) const {
    each([=](std::size_t i) __attribute__((always_inline)) {
      if constexpr (Fused) to[i] = std::fma(value * a[i], b[i], x[i]);
      else to[i] = x[i] + value * a[i] * b[i];
    });
  }
  T* data_;
  std::size_t size_;
  Scratch<T>* scratch_;
};

#undef FULGURITE_INDEPENDENT

/// The same operation on tensors.
inline void take_maximum(at::Tensor& x, at::Tensor const& other) { at::maximum_out(x, x, other); }
template <class T, bool Fused>
[[gnu::always_inline]] inline void take_maximum(Block<T, Fused> const& x, Block<T, Fused> const& other) {
  x.take_maximum(other);
}

}  // namespace fulgurite::libtorch
