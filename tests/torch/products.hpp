#pragma once
// What the units about matrix products share.

#include "fixtures.hpp"

#include <cstddef>

#include <fulgurite/torch/native/products.hpp>

namespace products {

/// How many products the process has tried so far.
inline std::size_t tried() {
  auto const [certified, left] = fulgurite::libtorch::native::Verdicts::of_process().count();
  return certified + left;
}

}  // namespace products
