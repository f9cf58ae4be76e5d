// refused: [fulgurite.chain.window] a kernel or pool is larger than what it slides over: make it smaller, pad, or leave out a layer before it that shrinks
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Input<1, 8, 8>, Conv2d<1, 8, 3>, MaxPool2d<2>, Conv2d<8, 8, 3>>;
#else
using Net = ChainShape<Input<1, 8, 8>, Conv2d<1, 8, 3>, MaxPool2d<2>, Conv2d<8, 8, 5>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
