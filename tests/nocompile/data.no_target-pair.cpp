// refused: [fulgurite.data.no_target] a TensorLoader takes two tensors, the data and the targets, then a sampler or none, options by their names, and behind them a transform: for a model that has no use for targets pass the data twice, TensorLoader{x, x, {...}}
// needs: LibTorch
#include <fulgurite/torch/data/tensor_loader.hpp>

using namespace fulgurite;

int main() {
  std::pair<torch::Tensor, torch::Tensor> const pair;
#ifdef LEGAL
  data::TensorLoader loader{pair.first, pair.second, {.batch_size = 4}};
#else
  data::TensorLoader loader{pair, {.batch_size = 4}};
#endif
  return static_cast<int>(loader.size());
}
