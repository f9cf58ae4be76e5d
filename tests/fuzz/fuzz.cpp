// One target of targets.hpp for libFuzzer, which FUZZ_TARGET names; tools/dev fuzz runs them. By hand:
//   clang++-19 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -DFUZZ_TARGET=pt_pickle -Iinclude
//     tests/fuzz/fuzz.cpp -lz -o fuzz_pt_pickle
//   FUZZ_SEEDS=corpus ./fuzz_pt_pickle -max_total_time=3600 -max_len=4096 corpus
// Meson builds fuzz_TARGET where clang and libFuzzer are: ninja -C build/clang tests/fuzz/fuzz_pt_pickle
#include <filesystem>
#include <fstream>

#include "seeds.hpp"

#define FUZZ_TEXT_OF(name) #name
#define FUZZ_NAME(name) FUZZ_TEXT_OF(name)

// libFuzzer calls these by their names.
extern "C" int LLVMFuzzerInitialize(int* count, char*** words);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

/// Puts the target's good input into the folder of FUZZ_SEEDS, with which the fuzzer then begins.
int LLVMFuzzerInitialize(int*, char***) {
  if (char const* const folder = std::getenv("FUZZ_SEEDS")) {
    std::filesystem::create_directories(folder);
    for (auto const& target : fuzz::targets())
      if (target.name == FUZZ_NAME(FUZZ_TARGET))
        std::ofstream(std::filesystem::path(folder) / "good", std::ios::binary) << target.good;
  }
  return 0;
}
int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::FUZZ_TARGET({reinterpret_cast<char const*>(data), size});
  return 0;
}
