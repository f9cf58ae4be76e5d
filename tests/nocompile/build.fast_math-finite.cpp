// refused: [fulgurite.build.fast_math] with -ffast-math, -Ofast or a part of them neither bits nor NaN are what was written: compile without, or put -fno-fast-math behind it
// flags: -ffinite-math-only
#include <fulgurite/core/error.hpp>

int main() {}
