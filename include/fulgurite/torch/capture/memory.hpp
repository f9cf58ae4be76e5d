#pragma once
// What a replay does to memory without asking an operator.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <ATen/core/Tensor.h>

namespace fulgurite::libtorch::capture {

/// Work on tensors that are dense, which whoever makes it has seen to.
struct Memory {
  enum class Kind {
    clear,
    add_to_zero,  ///< x becomes 0 + x, in place, float or double: only -0 changes, to 0
    repeat,       ///< the first tensor becomes each row of the second
  };
  Kind kind;
  std::vector<at::Tensor> tensors = {};

  void run() const {
    if (kind == Kind::repeat) return repeat(tensors[0], tensors[1]);
    for (auto const& tensor : tensors) {
      if (kind == Kind::clear) std::memset(tensor.data_ptr(), 0, tensor.nbytes());
      else if (tensor.scalar_type() == at::kFloat) add(static_cast<float*>(tensor.data_ptr()), tensor.numel());
      else add(static_cast<double*>(tensor.data_ptr()), tensor.numel());
    }
  }

  /// Whether the first tensor is a row of the second.
  bool fits_rows() const {
    auto const &row = tensors[0], &all = tensors[1];
    return row.dim() == 1 && all.dim() == 2 && row.is_contiguous() && all.is_contiguous() && row.size(0) == all.size(1) &&
           row.scalar_type() == all.scalar_type() && all.numel() != 0;
  }

 private:
  static void repeat(at::Tensor const& row, at::Tensor const& all) {
    auto const bytes = row.nbytes();
    auto* to = static_cast<char*>(all.data_ptr());
    for (std::int64_t i = 0; i != all.size(0); ++i, to += bytes) std::memcpy(to, row.const_data_ptr(), bytes);
  }
  template <class T>
  static void add(T* values, std::int64_t n) {
    for (std::int64_t i = 0; i != n; ++i) values[i] += T(0);
  }
};

}  // namespace fulgurite::libtorch::capture
