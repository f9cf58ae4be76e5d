// refused: [fulgurite.chain.features] a layer takes another number of features than the one before gives: make the two numbers equal
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Linear<784, 256>, ReLU, Linear<256, 10>>;
#else
using Net = ChainShape<Linear<784, 256>, ReLU, Linear<128, 10>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
