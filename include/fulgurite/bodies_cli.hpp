#pragma once
// The body files of fulgurite/cli.hpp. A program includes fulgurite/bodies.hpp.

#include <fulgurite/cli/program.ipp>
#include <fulgurite/cli/table.ipp>
#include <fulgurite/cli/text.ipp>
