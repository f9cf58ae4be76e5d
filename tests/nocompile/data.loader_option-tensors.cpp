// refused: [fulgurite.data.loader_option] num_workers is .workers here, and prefetch_factor is .prefetch; a sampler, which decides the order, stands before the options, and a function of batches behind them: Loader{dataset, sampler, {.batch_size = 32}, collate}
// needs: LibTorch
#include <fulgurite/torch/data/tensor_loader.hpp>

using namespace fulgurite;

int main() {
  auto const x = torch::Tensor();
#ifdef LEGAL
  data::TensorLoader loader{x, x, {.batch_size = 4, .workers = 2}};
#else
  data::TensorLoader loader{x, x, {.batch_size = 4, .num_workers = 2}};
#endif
  return static_cast<int>(loader.size());
}
