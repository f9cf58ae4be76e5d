// refused: [fulgurite.chain.layer] this is no layer: give types such as Linear<784, 256> and ReLU of fulgurite; your own declares parameter_count, step(Shape) and Module
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Linear<8, 8>, ReLU>;
#else
using Net = ChainShape<Linear<8, 8>, float>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
