// refused: [fulgurite.tune.empty_axis] a field without a value makes a space without a member: list its values
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
  static_cast<void>(tune::values<&Setting::rate>(0.1));
#else
  static_cast<void>(tune::values<&Setting::rate>());
#endif
}
