// refused: [fulgurite.data.no_batch] the function that makes batches does not take a std::vector of these samples: Stack{} takes tensors, numbers, texts, pairs, tuples and structs of tensors; give AsVector{}, or a collate(std::vector<Sample>) of your own
#include <toy.hpp>

#include <numeric>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  std::vector<double> const samples(8, 1.0);
#ifdef LEGAL
  auto const sum = [](std::vector<double> const& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
#else
  auto const sum = [](double const* all) { return *all; };
#endif
  data::Loader loader{samples, {.batch_size = 4}, sum};
  return static_cast<int>(loader.size());
}
