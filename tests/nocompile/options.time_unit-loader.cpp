// refused: [fulgurite.options.time_unit] a number alone has no unit: write std::chrono::seconds{60}, or "00:00:01:00" (days, hours, minutes, seconds)
#include <vector>

#include <fulgurite/data/loader.hpp>

using namespace fulgurite;

int main() {
  std::vector<double> const samples(8);
#ifdef LEGAL
  data::Loader loader{samples, {.batch_size = 4, .workers = 2, .timeout = std::chrono::seconds{30}}};
#else
  data::Loader loader{samples, {.batch_size = 4, .workers = 2, .timeout = 30}};
#endif
  return static_cast<int>(loader.size());
}
