#pragma once
// One seed for everything that draws.

#include <cstdint>

#include <fulgurite/torch/device/backend.hpp>

namespace fulgurite {

/// Seeds LibTorch's generators, of the CPU and of every GPU: call it before the model is made. Loaders have seeds of
/// their own (`.seed`), which are the same in each run unless they are told another. Returns the seed.
inline std::uint64_t seed_everything(std::uint64_t seed) {
  LibTorch::seed(seed);
  return seed;
}

}  // namespace fulgurite
