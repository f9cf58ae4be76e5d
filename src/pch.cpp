// What fulgurite_pch precompiles, and the command to do it with: a unit of a program that links LibTorch.
#include <fulgurite/fulgurite.hpp>

int main() {}
