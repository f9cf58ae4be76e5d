// refused: [fulgurite.tune.shown] a field of a space is a number, a truth value, an enum or a text, so that the table can show it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/space.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
  long width = 8;
  std::vector<int> layers = {};
};

int main() {
#ifdef LEGAL
  static_cast<void>(tune::values<&Setting::width>(1));
#else
  static_cast<void>(tune::values<&Setting::layers>(std::vector<int>{1}));
#endif
}
