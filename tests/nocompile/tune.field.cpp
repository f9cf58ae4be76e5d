// refused: [fulgurite.tune.field] a space is made of data members of your hyper-parameters: write &Setting::rate
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/space.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
  long width = 8;
  long area() const { return width; }
};

int main() {
#ifdef LEGAL
  static_cast<void>(tune::values<&Setting::width>(1));
#else
  static_cast<void>(tune::values<&Setting::area>(1));
#endif
}
