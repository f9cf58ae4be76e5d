#pragma once
// The version of the library, by the rules of semantic versioning; CHANGELOG.md says what each version brought. This
// header is where it is decided: tests/recipes compares meson.build, the CMake package and CHANGELOG.md with it.

#define FULGURITE_VERSION_MAJOR 0
#define FULGURITE_VERSION_MINOR 1
#define FULGURITE_VERSION_PATCH 0
#define FULGURITE_VERSION "0.1.0"
