// refused: [fulgurite.chain.groups] the groups of a convolution must divide its channels, in and out: choose a divisor of both
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Conv2d<8, 12, 3, Conv2dOptions{.groups = 4}>>;
#else
using Net = ChainShape<Conv2d<8, 12, 3, Conv2dOptions{.groups = 3}>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
