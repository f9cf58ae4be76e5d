#pragma once
// Refuses compiler flags that let a program's arithmetic differ from what is written.
// A trainer promises the same bits on every run, after a resume, and from a captured step; and it looks for losses that
// are not finite. Both are untrue where the compiler may reorder sums or take it that no number is ever infinite or
// NaN.

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||                               \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
static_assert(
    false, "[fulgurite.build.fast_math] with -ffast-math, -Ofast or a part of them neither bits nor NaN are what was "
           "written: compile without, or put -fno-fast-math behind it");
#endif
