// refused: [fulgurite.chain.flops] the work of a chain depends on the extents of its input: begin it with Input<channels, height, width>
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Input<3, 32, 32>, Conv2d<3, 16, 3>, ReLU>;
#else
using Net = ChainShape<Conv2d<3, 16, 3>, ReLU>;
#endif

int main() { return Net::flops > 1'000'000'000; }
