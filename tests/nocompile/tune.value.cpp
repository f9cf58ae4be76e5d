// refused: [fulgurite.tune.value] this field cannot hold a value of that type: list values of the field's own type
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
  static_cast<void>(tune::values<&Setting::width>(8));
#else
  static_cast<void>(tune::values<&Setting::width>(8.5));
#endif
}
