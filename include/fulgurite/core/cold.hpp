#pragma once
// FULGURITE_COLD stands in front of a body that depends on no template parameter and runs seldom: files, texts, set-up,
// recording. FULGURITE_BULK stands in front of one that runs seldom, too, but then works through many bytes, rows or
// tensors. Where nothing is defined, which is the default, both say `inline`: header-only; cold bodies are made small,
// and are not copied into their callers, since every program compiles them again. A program that defines
// FULGURITE_COMPILED sees the same bodies and does not generate their code: it links the library fulgurite_compiled,
// which is src/compiled.cpp, built once. So there are two flavours and one source. A body of the hot loop has no such
// mark; nor has a member of a class template, which the library does not instantiate; nor a constructor, of which clang
// makes two and keeps one; nor what has a static local or is constexpr. tests/layout/cold.py checks.

#if defined(FULGURITE_COMPILES_BODIES)
#define FULGURITE_COLD [[gnu::used]] inline
#define FULGURITE_BULK FULGURITE_COLD
#elif !defined(FULGURITE_COMPILED)
#if defined(__clang__)
#define FULGURITE_COLD [[clang::minsize, gnu::noinline]] inline
#else
#define FULGURITE_COLD [[gnu::cold, gnu::noinline]] inline
#endif
#define FULGURITE_BULK inline
#elif defined(__clang__)
// Version 10 of clang changed what gnu_inline means without `extern`, which cannot stand in a class; it warns of that.
#define FULGURITE_COLD                                                                                                 \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wgnu-inline-cpp-without-extern\"")             \
      [[gnu::gnu_inline, gnu::noinline]] _Pragma("clang diagnostic pop") inline
#define FULGURITE_BULK FULGURITE_COLD
#else  // g++ knows no gnu_inline with noinline, and never inlines a body of another optimization level.
#define FULGURITE_COLD [[gnu::gnu_inline, gnu::optimize(0)]] inline
#define FULGURITE_BULK FULGURITE_COLD
#endif

// A program whose units disagree would have two versions of its inline functions. It does not link: one unit says that
// this variable is one per thread, the other that it is not, and each linker names the variable.
#if defined(FULGURITE_COMPILED)
[[gnu::used]] inline constinit thread_local char fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none = 0;
#else
[[gnu::used]] inline constinit char fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none = 0;
#endif
