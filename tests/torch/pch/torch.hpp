// The precompiled header of tests/torch: what every unit there includes anyway. Meson wants it in a folder of its own.
#pragma once
#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>
