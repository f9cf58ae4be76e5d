// A unit that gives precompile.py and tests/recipes/guide.py a compile command and fulgurite_pch its header: a program
// that links LibTorch.
#include <fulgurite/fulgurite.hpp>

int main() {}
