// The precompiled header of tests/torch: what most units there include. Meson wants it in a folder of its
// own. No #pragma once: nothing includes this file, and g++ 12 warns of one in a file that it compiles itself.
#include <torch/torch.h>
// After LibTorch, whose logging header defines a CHECK of its own (it ends the program instead of failing a test).
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/fulgurite.hpp>
