// refused: [fulgurite.data.subset_of] a Subset takes positions, and a loader the samples: write data::Loader{samples, data::Subset{{0, 1}}, {.batch_size = 4}}
// g++: [with fulgurite_data_subset_of_positions = fulgurite::data::Sequential
#include <vector>

#include <fulgurite/data/sampler.hpp>

using namespace fulgurite;

int main() {
  std::vector<double> const samples(8);
#ifdef LEGAL
  data::Subset const subset{{0, 1}};
#else
  data::Subset const subset{samples, {0, 1}};
#endif
  return static_cast<int>(samples.size() - subset.size());
}
