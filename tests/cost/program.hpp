#pragma once
// The command line of the programs that are counted: `program STEPS [STEPS OF VALIDATION]`.

#include <cstdio>
#include <cstdlib>

/// Ends with status 1 where another number of steps was taken than asked for: a program that does not work must not
/// win.
inline int report(long steps, long taken) {
  if (taken != steps) std::fprintf(stderr, "%ld steps were to be taken, %ld were\n", steps, taken);
  return taken == steps ? 0 : 1;
}

inline long steps_of(int argc, char** argv) { return argc > 1 ? std::atol(argv[1]) : 1000; }
