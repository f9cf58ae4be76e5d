// refused: [fulgurite.chain.dropout] the rate of a dropout is the share that it zeroes: give one from 0 to below 1
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Linear<8, 8>, Dropout<0.5>, ReLU>;
#else
using Net = ChainShape<Linear<8, 8>, Dropout<50>, ReLU>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
