// refused: [fulgurite.chain.features] a layer takes another number of features than the one before gives: make the two numbers equal
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Linear<8, 64>, Residual<Chain<Linear<64, 16>, ReLU, Linear<16, 64>>>>;
#else
using Net = ChainShape<Linear<8, 64>, Residual<Chain<Linear<64, 16>, ReLU, Linear<32, 64>>>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
