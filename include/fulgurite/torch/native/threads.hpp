#pragma once
// A loop on LibTorch's threads.

#include <cstdint>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

namespace fulgurite::libtorch::native {

/// f(i) for all i from 0 to n, each once, on as many threads as LibTorch may use. at::parallel_for is a template that
/// runs on one thread where the program that includes it is compiled without OpenMP; LibTorch's own loop over the
/// elements of a tensor is compiled with it.
template <class F>
void on_threads(std::int64_t n, F const& f) {
  if (n == 1 || at::get_num_threads() == 1 || at::in_parallel_region()) {
    for (std::int64_t i = 0; i != n; ++i) f(i);
    return;
  }
  at::TensorBase const places = at::detail::empty_cpu({n}, at::kByte);
  auto const* const begin = static_cast<char const*>(places.const_data_ptr());
  auto walk = at::TensorIterator::borrowing_nullary_op(places);
  // The form with rows: the one without is wrapped by LibTorch in a copy of the pointers, of which g++ 12 says at -O2
  // that it may be read before it is written.
  walk.for_each(
      [&](char** data, std::int64_t const* strides, std::int64_t size, std::int64_t rows) {
        for (std::int64_t row = 0; row != rows; ++row) {
          char const* const first = data[0] + row * strides[1];
          for (std::int64_t i = 0; i != size; ++i) f(first + i * strides[0] - begin);
        }
      },
      1);
}

}  // namespace fulgurite::libtorch::native
