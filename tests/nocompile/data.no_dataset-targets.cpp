// refused: [fulgurite.data.no_dataset] a Loader takes a data set, which has size() and a const get(i) or operator[](i), such as a std::vector of samples: for tensors write TensorLoader{x, y, {.batch_size = 32}}
// needs: LibTorch
#include <fulgurite/torch/data/tensor_loader.hpp>

using namespace fulgurite;

int main() {
  auto const x = torch::Tensor();
#ifdef LEGAL
  data::TensorLoader loader{x, x, {.batch_size = 32}};
#else
  data::Loader loader{x, x, {.batch_size = 32}};
#endif
  return static_cast<int>(loader.size());
}
