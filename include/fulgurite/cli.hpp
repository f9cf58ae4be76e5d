#pragma once
// Programs with a command line, on CLI11 and toml++, whose headers have to be there. Not a part of fulgurite.hpp; a
// program on LibTorch includes fulgurite/defaults.hpp, too. Never included by a header of ours.

#include <fulgurite/cli/program.hpp>
