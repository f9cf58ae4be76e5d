// What the checksums of a file cost: gigabytes a second of CRC-32C by the processor's instruction and by the table, and
// of one copy in memory beside them. The best of five turns over 256 MB.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>

namespace {

/// Printed, so that no compiler leaves the work out.
std::uint32_t seen = 0;

double best_of_five(std::size_t bytes, auto&& work) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int turn = 0; turn != 5; ++turn) {
    auto const began = Clock::now();
    seen ^= work();
    best =
        std::max(best, static_cast<double>(bytes) / 1e9 / std::chrono::duration<double>(Clock::now() - began).count());
  }
  return best;
}

}  // namespace

int main() {
  std::vector<std::byte> from(std::size_t{256} << 20), to(from.size());
  for (std::size_t i = 0; i != from.size(); ++i) from[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  std::span<std::byte const> const all(from);
  std::printf("instruction: %s\n",
              fulgurite::crc::has_instruction && fulgurite::crc::instruction_is_there() ? "yes" : "no");
  std::printf("crc32c    %6.2f GB/s\n", best_of_five(all.size(), [&] { return fulgurite::crc32c(0, all); }));
  std::printf("by table  %6.2f GB/s\n", best_of_five(all.size(), [&] { return fulgurite::crc::by_table(~0U, all); }));
  std::printf("one copy  %6.2f GB/s\n", best_of_five(all.size(), [&] {
                std::memcpy(to.data(), from.data(), to.size());
                return static_cast<std::uint32_t>(to[seen % to.size()]);
              }));
  return seen == 1 ? 1 : 0;
}
