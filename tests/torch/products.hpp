#pragma once
// What the units about matrix products share.

#include "fixtures.hpp"

#include <cstddef>

#include <fulgurite/torch/native/products.hpp>

namespace products {

/// So many threads of LibTorch's, until it ends.
class Threads {
 public:
  explicit Threads(int n) { at::set_num_threads(n); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(Threads const&) = delete;
  Threads& operator=(Threads const&) = delete;

 private:
  int before_ = at::get_num_threads();
};

/// How many products the process has tried so far.
inline std::size_t tried() {
  auto const [certified, left] = fulgurite::libtorch::native::Verdicts::of_process().count();
  return certified + left;
}

}  // namespace products
