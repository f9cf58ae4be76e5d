#pragma once
// What a replay does to memory by itself, without an operator.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/torch/native/number_loop.hpp>

namespace fulgurite::libtorch::capture {

/// These work on dense tensors alone.
struct Memory {
  enum class Kind {
    clear,
    add_to_zero,  ///< x becomes 0 + x, in place, float or double: only -0 changes, to 0
    zero_plus,    ///< the first tensor becomes 0 + the second, of the same layout
    repeat,       ///< the first tensor becomes each row of the second
    divide,       ///< each x becomes x / number
  };
  Kind kind;
  std::vector<at::Tensor> tensors = {};
  double number = 1;

  void run() const {
    if (kind == Kind::repeat) return repeat(tensors[0], tensors[1]);
    if (kind == Kind::zero_plus) return add(tensors[0], tensors[1]);
    for (auto const& tensor : tensors) {
      if (kind == Kind::clear) std::memset(tensor.data_ptr(), 0, tensor.nbytes());
      else if (kind == Kind::divide) divide(tensor);
      else add(tensor, tensor);
    }
  }

  /// Whether the first tensor is a row of the second.
  bool fits_rows() const {
    auto const &row = tensors[0], &all = tensors[1];
    return row.dim() == 1 && all.dim() == 2 && row.is_contiguous() && all.is_contiguous() &&
           row.size(0) == all.size(1) && row.scalar_type() == all.scalar_type() && all.numel() != 0;
  }

  template <class T>
  static void zero_plus(T* to, T const* from, std::int64_t n) {
    native::each_number(n, [](auto value) { return T(0) + value; }, to, from);
  }

 private:
  static void repeat(at::Tensor const& row, at::Tensor const& all) {
    auto const bytes = row.nbytes();
    auto const* const from = row.const_data_ptr();
    auto* to = static_cast<char*>(all.data_ptr());
    for (auto rows = all.size(0); rows != 0; --rows, to += bytes) std::memcpy(to, from, bytes);
  }
  static void add(at::Tensor const& to, at::Tensor const& from) {
    if (to.scalar_type() == at::kFloat)
      zero_plus(static_cast<float*>(to.data_ptr()), static_cast<float const*>(from.const_data_ptr()), to.numel());
    else zero_plus(static_cast<double*>(to.data_ptr()), static_cast<double const*>(from.const_data_ptr()), to.numel());
  }
  void divide(at::Tensor const& tensor) const {
    if (tensor.scalar_type() == at::kFloat)
      divide(static_cast<float*>(tensor.data_ptr()), static_cast<float>(number), tensor.numel());
    else divide(static_cast<double*>(tensor.data_ptr()), number, tensor.numel());
  }
  template <class T>
  static void divide(T* values, T by, std::int64_t n) {
    native::each_number(n, [=](auto value) { return value / by; }, values, values);
  }
};

}  // namespace fulgurite::libtorch::capture
