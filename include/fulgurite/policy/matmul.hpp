#pragma once
// Which matrix products a step on the CPU uses.

#include <cstdint>

namespace fulgurite {

/// Whose matrix products the steps of a strategy on the CPU use; results are the same to the bit.
enum class Matmul : std::uint8_t {
  faster,     ///< LIBXSMM's, where they give LibTorch's very bits and a rule of shape and processor says faster
  certified,  ///< LIBXSMM's, wherever they give LibTorch's very bits
  libtorch,   ///< LibTorch's alone
};

}  // namespace fulgurite
