// refused: [fulgurite.chain.features] a layer takes another number of features than the one before gives: make the two numbers equal
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Input<1, 28, 28>, Conv2d<1, 8, 3>, ReLU, MaxPool2d<2>, Flatten, Linear<8 * 13 * 13, 10>>;
#else
using Net = ChainShape<Input<1, 28, 28>, Conv2d<1, 8, 3>, ReLU, MaxPool2d<2>, Flatten, Linear<8 * 14 * 14, 10>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
