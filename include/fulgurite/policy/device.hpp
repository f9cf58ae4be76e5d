#pragma once
// Where a strategy computes. The tags are types, so that rules can see them.

#include <fulgurite/core/known.hpp>

namespace fulgurite {

struct Cpu {
  static constexpr Known on_gpu = Known::no;
};
/// An NVIDIA GPU; `Cuda{1}` is the second one.
struct Cuda {
  static constexpr Known on_gpu = Known::yes;
  int index = 0;
};
/// A GPU where there is one, else the CPU; decided when the program starts, so rules about GPUs become early exceptions.
struct AutomaticDevice {
  static constexpr Known on_gpu = Known::at_run_time;
};

inline constexpr Cpu cpu{};
inline constexpr Cuda cuda{};
inline constexpr AutomaticDevice automatic{};

}  // namespace fulgurite
