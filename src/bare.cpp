// The library's bodies that know nothing of LibTorch, for programs that define FULGURITE_COMPILED (core/body.hpp).
#define FULGURITE_IMPLEMENTATION
#include <fulgurite/bodies_bare.hpp>
