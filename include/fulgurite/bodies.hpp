#pragma once
// Every body, for the one unit of a program that defines FULGURITE_IMPLEMENTATION, while all units define
// FULGURITE_COMPILED. Who builds with Meson or CMake links the libraries made of src/ instead (docs/building.md).

#include <fulgurite/core/body.hpp>

#if !defined(FULGURITE_COMPILED)
#error "[fulgurite.bodies] define FULGURITE_IMPLEMENTATION in this unit, before it includes anything of fulgurite"
#endif

#include <fulgurite/bodies_bare.hpp>

#if __has_include(<ATen/core/Tensor.h>)
#include <fulgurite/bodies_torch.hpp>
#endif

#if __has_include(<CLI/CLI.hpp>) && __has_include(<toml++/toml.h>)
#include <fulgurite/bodies_cli.hpp>
#endif
