// refused: [fulgurite.chain.empty] a chain without a layer does nothing: give it one, such as Linear<784, 10>
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Linear<8, 8>>;
#else
using Net = ChainShape<>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
