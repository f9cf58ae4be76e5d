// refused: [fulgurite.capture.fastest] Fastest takes a SingleDevice, then options by their names: Fastest{SingleDevice{cpu}, {.go_back = false}}
// g++: [with fulgurite_capture_fastest_takes_a_device =
// needs: LibTorch
#include <fulgurite/torch/capture/fastest.hpp>
#include <fulgurite/torch/device/single_device.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  Fastest strategy{SingleDevice{cpu}};
#else
  Fastest strategy{cpu};
#endif
  return strategy.rank();
}
