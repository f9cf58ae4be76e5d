// The bodies that do not need LibTorch, for programs that define FULGURITE_COMPILED (core/body.hpp).
#define FULGURITE_IMPLEMENTATION
#include <fulgurite/bodies_bare.hpp>
