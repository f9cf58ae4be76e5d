// refused: [fulgurite.data.no_batch] the function that makes batches does not take a std::vector of these samples: Stack{} takes tensors, numbers, texts, pairs, tuples and structs of tensors; give AsVector{}, or a collate(std::vector<Sample>) of your own
// needs: LibTorch
#include <torch/torch.h>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/torch/data/stack.hpp>

using namespace fulgurite;

struct Sample {
  torch::Tensor image;
#ifdef LEGAL
  torch::Tensor label;
#else
  int label;
#endif
};

int main() {
  std::vector<Sample> const samples(8);
  data::Loader loader{samples, {.batch_size = 4}, data::Stack{}};
  return static_cast<int>(loader.size());
}
