// refused: [fulgurite.options.list] an option that is a list is given in braces of its own: write schedule::MultiStep{{10, 20}}, or Pipeline{.balance = {2, 1}}
#include <fulgurite/schedule/schedule.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  schedule::MultiStep const steps{{10, 20}};
#else
  schedule::MultiStep const steps{10, 20};
#endif
  return static_cast<int>(steps(4));
}
