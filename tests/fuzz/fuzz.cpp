// One target of targets.hpp for libFuzzer, which FUZZ_TARGET names:
//   clang++-19 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -DFUZZ_TARGET=pt_pickle -Iinclude
//     tests/fuzz/fuzz.cpp -lz -o fuzz_pt_pickle
//   ./fuzz_pt_pickle -max_total_time=3600 -max_len=4096 corpus
// Meson builds fuzz_TARGET where clang and libFuzzer are: ninja -C build/clang tests/fuzz/fuzz_pt_pickle
#include "targets.hpp"

// libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::FUZZ_TARGET({reinterpret_cast<char const*>(data), size});
  return 0;
}
