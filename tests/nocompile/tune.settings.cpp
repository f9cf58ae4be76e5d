// refused: [fulgurite.tune.settings] the fields of a space belong to one type of hyper-parameters
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/space.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
  long width = 8;
};
struct Other {
  long width = 8;
};

int main() {
#ifdef LEGAL
  static_cast<void>(tune::grid(tune::values<&Setting::rate>(0.1), tune::values<&Setting::width>(8)));
#else
  static_cast<void>(tune::grid(tune::values<&Setting::rate>(0.1), tune::values<&Other::width>(8)));
#endif
}
