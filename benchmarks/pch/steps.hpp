// The precompiled header of the loops: what each unit with LibTorch includes anyway.
// No #pragma once: nothing includes this file, and g++ 12 warns of one in a file that it compiles itself.
#include <torch/torch.h>
