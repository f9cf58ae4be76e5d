// The bodies of fulgurite/cli.hpp, for programs that define FULGURITE_COMPILED (core/body.hpp).
#define FULGURITE_IMPLEMENTATION
#include <fulgurite/bodies_cli.hpp>
