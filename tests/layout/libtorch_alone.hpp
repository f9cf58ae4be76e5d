// LibTorch alone, precompiled by tests/layout/headers.py, which tries each header of the library on top of it. No
// #pragma once: nothing includes this file, and g++ 12 warns of one in a file that it compiles itself.
#include <torch/torch.h>
