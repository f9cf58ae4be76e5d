// refused: [fulgurite.data.pipeline] this step does not follow what stands before it: write dataset | subset(samples) | shuffle(seed) | batch(64), of which only batch must be there, each once
#include <vector>

#include <fulgurite/data/pipeline.hpp>

using namespace fulgurite;

int main() {
  std::vector<double> samples(100);
#ifdef LEGAL
  auto loader = samples | data::shuffle(7) | data::batch(10);
#else
  auto loader = samples | data::batch(10) | data::shuffle(7);
#endif
  return loader.size() == 10 ? 0 : 1;
}
