// refused: [fulgurite.data.loader_arguments] a Loader takes the data set, a sampler or none, options by their names, and behind them a function that makes batches: Loader{dataset, {.batch_size = 32}, collate}
#include <vector>

#include <fulgurite/data/loader.hpp>

using namespace fulgurite;

int main() {
  std::vector<double> const samples(8);
#ifdef LEGAL
  data::Loader loader{samples, data::Shuffle{8, 1}, {}, data::AsVector{}};
#else
  data::Loader loader{samples, data::Shuffle{8, 1}, data::AsVector{}};
#endif
  return static_cast<int>(loader.size());
}
