// The precompiled header of the suites on toy tensors: what most units there include anyway. Meson wants it in a folder
// of its own, and g++ a name that no other header has, since it would be found in the place of that header. No
// #pragma once: nothing includes this file, and g++ 12 warns of one in a file that it compiles itself.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
