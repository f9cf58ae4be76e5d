// refused: [fulgurite.chain.padding] a pool may be padded by half of its window at most: give less, or a larger window
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Net = ChainShape<MaxPool2d<2, Pool2dOptions{.stride = 2, .padding = 1}>>;
#else
using Net = ChainShape<MaxPool2d<2, Pool2dOptions{.stride = 2, .padding = 2}>>;
#endif

int main() { return Net::parameter_count > 1'000'000; }
