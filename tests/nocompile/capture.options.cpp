// refused: [fulgurite.capture.options] Captured's options are given by their names: Captured{SingleDevice{cpu}, {.go_back = false}}, or Captured{..., kernels::fastest}
// needs: LibTorch
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/device/single_device.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  Captured strategy{SingleDevice{cpu}, {.go_back = false}};
#else
  Captured strategy{SingleDevice{cpu}, false};
#endif
  return strategy.rank();
}
