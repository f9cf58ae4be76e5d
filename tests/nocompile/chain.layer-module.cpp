// refused: [fulgurite.chain.layer] this is no layer: give types such as Linear<784, 256> and ReLU of fulgurite; your own declares parameter_count, step(Shape) and Module
#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;

struct Scale {
  static constexpr chain::Extent parameter_count = 1;
  static constexpr chain::Step step(chain::Shape in) { return {in}; }
#ifdef LEGAL
  struct Module {};  // a torch::nn::Module, in a program that has LibTorch
#endif
};
using Net = ChainShape<Linear<8, 8>, Scale>;

int main() { return Net::parameter_count > 1'000'000; }
