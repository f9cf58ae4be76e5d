// refused: [fulgurite.libtorch.version] Fulgurite uses parts of LibTorch that may change with every version, and was tested with 2.11: use that one, or run Fulgurite's torch tests with yours, and compile with -DFULGURITE_LIBTORCH_TESTED when they pass
// needs: LibTorch
#include <torch/version.h>
#ifndef LEGAL
#undef TORCH_VERSION_MINOR
#define TORCH_VERSION_MINOR 12  // as a later LibTorch says
#endif
#include <fulgurite/torch/device/internals.hpp>

int main() {}
