// refused: [fulgurite.tune.draw] only a number lies between two bounds: use choice for this field
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/space.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
  long width = 8;
  bool deep = false;
};

int main() {
#ifdef LEGAL
  static_cast<void>(tune::choice<&Setting::deep>(false, true));
#else
  static_cast<void>(tune::uniform<&Setting::deep>(false, true));
#endif
}
