#pragma once
// Counts what `operator new` is asked for in the whole program. Included by exactly one file of a program.

#include <cstdlib>
#include <new>

namespace cost {
inline long allocated = 0;
}

// Replaced by name: the default ones may be replaced by a program, and libraries then use the program's.
void* operator new(std::size_t bytes) {
  ++cost::allocated;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++cost::allocated;
  auto const a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace cost {

/// Allocations of one step: run(n) takes n steps, and what starting and ending costs is the same for both.
template <class F>
double allocations_a_step(F&& run, long few, long many) {
  auto const counted = [&](long steps) {
    long const before = allocated;
    run(steps);
    return allocated - before;
  };
  long const warm = counted(few), more = counted(many);
  return static_cast<double>(more - warm) / static_cast<double>(many - few);
}

}  // namespace cost
