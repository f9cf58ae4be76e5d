// refused: [fulgurite.tune.empty_space] a space without a field has no member: give it values<&Setting::rate>(...), or list the settings
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/space.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
  long width = 8;
};

int main() {
#ifdef LEGAL
  static_cast<void>(tune::grid(tune::values<&Setting::rate>(0.1)));
#else
  static_cast<void>(tune::grid());
#endif
}
