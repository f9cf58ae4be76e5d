// refused: [fulgurite.data.no_target] a TensorLoader takes two tensors, the data and the targets, then a sampler or none, options by their names, and behind them a transform: for a model that has no use for targets pass the data twice, TensorLoader{x, x, {...}}
// needs: LibTorch
#include <fulgurite/torch/data/tensor_loader.hpp>

using namespace fulgurite;

int main() {
  auto const x = torch::Tensor();
#ifdef LEGAL
  data::TensorLoader loader{x, x, {.batch_size = 4}};
#else
  data::TensorLoader loader{x, x, 4};
#endif
  return static_cast<int>(loader.size());
}
