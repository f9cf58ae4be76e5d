#pragma once
// The strategy of a trainer that is not told one.

#include <fulgurite/policy/device.hpp>
#include <fulgurite/policy/left_out.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite {

/// The first GPU if LibTorch sees one, else the CPU.
template <class Model>
struct DefaultStrategy {
  static auto make() { return SingleDevice{automatic}; }
};

}  // namespace fulgurite
