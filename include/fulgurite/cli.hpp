#pragma once
// For programs with a command line. Needs the headers of CLI11 and toml++. Not part of fulgurite.hpp; a program on
// LibTorch includes fulgurite/defaults.hpp, too. No header of the library includes this one.

#include <fulgurite/cli/program.hpp>
