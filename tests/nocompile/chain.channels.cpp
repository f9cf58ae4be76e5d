// refused: [fulgurite.chain.channels] a layer takes another number of channels than the one before gives: make the two numbers equal
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Conv2d<3, 16, 3>, BatchNorm2d<16>, ReLU, Conv2d<16, 32, 3>>;
#else
using Net = ChainShape<Conv2d<3, 16, 3>, BatchNorm2d<16>, ReLU, Conv2d<8, 32, 3>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
