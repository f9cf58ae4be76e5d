// refused: [fulgurite.data.no_dataset] a Loader takes a data set, which has size() and a const get(i) or operator[](i), such as a std::vector of samples: for tensors write TensorLoader{x, y, {.batch_size = 32}}
#include <map>
#include <vector>

#include <fulgurite/data/loader.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  std::vector<std::pair<int, double>> const samples(8);
#else
  std::map<int, double> const samples;
#endif
  data::Loader loader{samples, data::Shuffle{8, 1}};
  return static_cast<int>(loader.size());
}
