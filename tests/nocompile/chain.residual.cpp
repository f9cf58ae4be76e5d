// refused: [fulgurite.chain.residual] the branch of a Residual gives another shape than it takes, so the two cannot be added: end it with a layer that restores the shape
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Linear<8, 64>, Residual<Chain<Linear<64, 16>, ReLU, Linear<16, 64>>>>;
#else
using Net = ChainShape<Linear<8, 64>, Residual<Chain<Linear<64, 16>, ReLU>>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
