#pragma once
// One value of a tensor library inside a saved state: what a callback that keeps tensors puts into an archive.

#include <cstdint>
#include <string>
#include <vector>

namespace fulgurite {

/// The bytes of one tensor in row-major order, little endian. `dtype` is safetensors' name of the element type ("F32").
struct SavedValue {
  std::string dtype = {};
  std::vector<std::int64_t> shape = {};
  std::string bytes = {};

  void state(auto& archive) { archive("dtype", dtype)("shape", shape)("bytes", bytes); }
};

}  // namespace fulgurite
