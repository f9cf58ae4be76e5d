// refused: [fulgurite.chain.rank] a layer takes samples of another number of dimensions than arrive: put Flatten between, or begin the chain with Input<channels, height, width>
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<Input<1, 28, 28>, Conv2d<1, 8, 3>, MaxPool2d<2>, Flatten>;
#else
using Net = ChainShape<Input<1, 28, 28>, Conv2d<1, 8, 3>, Flatten, MaxPool2d<2>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
