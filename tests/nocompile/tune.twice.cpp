// refused: [fulgurite.tune.twice] a field is listed twice in a space: list all of its values at once
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
  static_cast<void>(tune::grid(tune::values<&Setting::rate>(0.1, 0.2)));
#else
  static_cast<void>(tune::grid(tune::values<&Setting::rate>(0.1), tune::values<&Setting::rate>(0.2)));
#endif
}
