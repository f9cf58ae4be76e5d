// refused: [fulgurite.chain.extents] sizes, strides and dilations are at least 1, paddings at least 0: correct this layer's numbers
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Conv2d<1, 8, 3, Conv2dOptions{.stride = 1}>>;
#else
using Net = ChainShape<Conv2d<1, 8, 3, Conv2dOptions{.stride = 0}>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
