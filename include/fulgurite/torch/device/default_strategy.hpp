#pragma once
// The strategy of a trainer that is given none.

#include <cstdint>

#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite {

/// The first GPU if LibTorch sees one, otherwise the CPU.
template <class Model>
struct DefaultStrategy {
  static auto make() { return SingleDevice{automatic}; }
};

// One seed for all random numbers.

/// Seeds LibTorch's generators for the CPU and every GPU: call `seed_everything(42)` before the model is made. Loaders
/// have seeds of their own (`.seed`), which are the same in each run unless changed. Returns the seed.
inline std::uint64_t seed_everything(std::uint64_t seed) {
  LibTorch::seed(seed);
  return seed;
}

}  // namespace fulgurite
