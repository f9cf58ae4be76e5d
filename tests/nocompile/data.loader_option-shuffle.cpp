// refused: [fulgurite.data.loader_option] num_workers is .workers here, and prefetch_factor is .prefetch; a sampler, which decides the order, stands before the options, and a function of batches behind them: Loader{dataset, sampler, {.batch_size = 32}, collate}
#include <vector>

#include <fulgurite/data/loader.hpp>

using namespace fulgurite;

int main() {
  std::vector<double> const samples(8);
#ifdef LEGAL
  data::Loader loader{samples, data::Shuffle{8, 1}, {.batch_size = 4}};
#else
  data::Loader loader{samples, data::Shuffle{8, 1}, {.batch_size = 4, .shuffle = true}};
#endif
  return static_cast<int>(loader.size());
}
