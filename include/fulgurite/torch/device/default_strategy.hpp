#pragma once
// The strategy of a trainer that is not told one.

#include <cstdint>

#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite {

/// The first GPU if LibTorch sees one, else the CPU.
template <class Model>
struct DefaultStrategy {
  static auto make() { return SingleDevice{automatic}; }
};

// One seed for everything that draws.

/// Seeds LibTorch's generators, of the CPU and of every GPU: call it before the model is made. Loaders have seeds of
/// their own (`.seed`), which are the same in each run unless they are told another. Returns the seed.
inline std::uint64_t seed_everything(std::uint64_t seed) {
  LibTorch::seed(seed);
  return seed;
}

}  // namespace fulgurite
