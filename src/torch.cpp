// The bodies that include LibTorch, for programs that define FULGURITE_COMPILED (core/body.hpp).
#define FULGURITE_IMPLEMENTATION
#include <fulgurite/bodies_torch.hpp>
