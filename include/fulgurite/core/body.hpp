#pragma once
// Declarations and bodies. x.hpp declares; the body file x.ipp in the same folder defines everything that does not
// depend on template parameters. Each definition there begins with FULGURITE_BODY, or with FULGURITE_BULK_BODY if it
// processes many bytes, rows or tensors, or is called for each batch; FULGURITE_BODY functions run seldom and are
// optimized for size. By default, with none of the macros defined, x.hpp includes its body file, and both macros mean
// `inline`: header-only. If all units of a program define FULGURITE_COMPILED, x.hpp does not include it. The program
// then links the libraries made from src/, which contain all body files; or one of its units defines
// FULGURITE_IMPLEMENTATION and includes fulgurite/bodies.hpp. tests/layout/bodies.py checks the placement.
//
// A template that is mostly used with types of this library is instantiated for these in the library, too:
// FULGURITE_EXTERN(class Team<Batch>) after its definition in x.hpp declares that, so that no other unit instantiates
// it, and FULGURITE_INSTANTIATE(class Team<Batch>) in x.ipp does it. A member that is defined inside of its class is
// inline, and each unit instantiates it anyway: long members are defined after the class. A function with a constraint
// stays in its class, since g++ 12 and clang mangle its name differently.

// Clang 14 refuses consteval functions that are correct. This is the first error, and others follow it.
#if defined(__clang__) && __clang_major__ < 15
#error "[fulgurite.build.compiler] this clang is too old: use clang 19 or g++ 12, or a newer one"
#endif

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

// Moving and destroying a class with many members, or large ones: FULGURITE_MOVES(Class) in the class declares these
// functions, and FULGURITE_MOVES_BODY(Class) in the body file defines them. FULGURITE_COPIES is the same for a class
// that can be copied, too.
#define FULGURITE_MOVES(Class)                                                                                         \
  Class(Class&&) noexcept;                                                                                             \
  Class& operator=(Class&&) noexcept;                                                                                  \
  ~Class()
#define FULGURITE_MOVES_BODY(Class)                                                                                    \
  FULGURITE_BULK_BODY Class::Class(Class&&) noexcept = default;                                                        \
  FULGURITE_BULK_BODY Class& Class::operator=(Class&&) noexcept = default;                                             \
  FULGURITE_BULK_BODY Class::~Class() = default
#define FULGURITE_COPIES(Class)                                                                                        \
  Class(Class const&);                                                                                                 \
  Class& operator=(Class const&);                                                                                      \
  FULGURITE_MOVES(Class)
#define FULGURITE_COPIES_BODY(Class)                                                                                   \
  FULGURITE_BULK_BODY Class::Class(Class const&) = default;                                                            \
  FULGURITE_BULK_BODY Class& Class::operator=(Class const&) = default;                                                 \
  FULGURITE_MOVES_BODY(Class)

namespace fulgurite {
/// The base of a class whose objects are neither copied nor moved.
struct Pinned {
  Pinned() = default;
  Pinned(Pinned const&) = delete;
  Pinned& operator=(Pinned const&) = delete;
};
}  // namespace fulgurite

// A program whose units disagree would have two versions of its functions. It does not link: one unit declares this
// variable thread-local, the other does not, and GNU's linkers name the variable. LLVM's, and clang's -flto, do not see
// the difference.
#if defined(FULGURITE_COMPILED)
[[gnu::used]] inline constinit thread_local char fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none = 0;
#else
[[gnu::used]] inline constinit char fulgurite_all_units_must_define_FULGURITE_COMPILED_or_none = 0;
#endif
