#pragma once
// Between two rounds others may measure (tools/bench, for the peers in Python): with FULGURITE_TURNS set, each waits
// until the other has had its turn.

#include <cstdio>
#include <cstdlib>

namespace bench {

/// Says "turn" on the output and waits for a line on the input.
inline void give_turn() {
  static bool const shared = std::getenv("FULGURITE_TURNS") != nullptr;
  if (!shared) return;
  std::puts("turn");
  std::fflush(stdout);
  for (int c = std::getchar(); c != '\n' && c != EOF; c = std::getchar()) continue;
}

}  // namespace bench
