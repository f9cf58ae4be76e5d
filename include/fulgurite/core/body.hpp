#pragma once
// Declarations and bodies. x.hpp declares; the body file x.ipp beside it defines what depends on no template parameter,
// and FULGURITE_BODY stands in front of each definition there, or FULGURITE_BULK_BODY where it works through many
// bytes, rows or tensors, or is called for each batch. Where nothing is defined, which is the default, x.hpp includes
// its body file, and both say `inline`: header-only. What runs seldom is made small. Where all units of a program
// define FULGURITE_COMPILED, x.hpp does not include it, and the program links the libraries made of src/, which have
// all body files; or one unit of it defines FULGURITE_IMPLEMENTATION and includes fulgurite/bodies.hpp.
// tests/layout/bodies.py checks what stands where.
//
// A template that is mostly used with types of this library is in the library for these, too:
// FULGURITE_EXTERN(class Team<Batch>) behind its definition in x.hpp says that it is there, so that no other unit makes
// it, and FULGURITE_INSTANTIATE(class Team<Batch>) in x.ipp makes it. A member that is defined inside of its class is
// inline, and each unit makes it all the same: what is long stands behind the class. A function with a constraint stays
// in its class, since g++ 12 and clang do not agree on the name of one.

#if defined(FULGURITE_IMPLEMENTATION) && !defined(FULGURITE_COMPILED)
#define FULGURITE_COMPILED 1
#endif

#if defined(__clang__)
#define FULGURITE_SMALL clang::minsize
#else
#define FULGURITE_SMALL gnu::cold
#endif

#if defined(FULGURITE_COMPILED)
#define FULGURITE_BODY [[FULGURITE_SMALL]]
#define FULGURITE_BULK_BODY
#define FULGURITE_EXTERN(...) extern template __VA_ARGS__
#define FULGURITE_INSTANTIATE(...) template __VA_ARGS__
#else
#define FULGURITE_BODY [[FULGURITE_SMALL, gnu::noinline]] inline
#define FULGURITE_BULK_BODY inline
#define FULGURITE_EXTERN(...)
#define FULGURITE_INSTANTIATE(...)
#endif

// How a class is moved and destroyed that has many members, or large ones: FULGURITE_MOVES(Class) in it declares that,
// and FULGURITE_MOVES_BODY(Class) stands in the body file. One that can be copied says so beside it.
#define FULGURITE_MOVES(Class)                                                                                         \
  Class(Class&&) noexcept;                                                                                             \
  Class& operator=(Class&&) noexcept;                                                                                  \
  ~Class()
#define FULGURITE_MOVES_BODY(Class)                                                                                    \
  FULGURITE_BULK_BODY Class::Class(Class&&) noexcept = default;                                                        \
  FULGURITE_BULK_BODY Class& Class::operator=(Class&&) noexcept = default;                                             \
  FULGURITE_BULK_BODY Class::~Class() = default

// A program whose units disagree would have two versions of its functions. It does not link: one unit says that this
// variable is one per thread, the other that it is not, and each linker names the variable.
#if defined(FULGURITE_COMPILED)
[[gnu::used]] inline constinit thread_local char fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none = 0;
#else
[[gnu::used]] inline constinit char fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none = 0;
#endif
