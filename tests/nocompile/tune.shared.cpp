// refused: [fulgurite.tune.shared] only a container of batches can be read by several members at once: give each a copy of this loader, which has the data in common with it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

/// Counts what it yields.
struct Counting {
  int at = 0;
  int* begin() { return &at; }
  int* end() { return &at; }
};
Counting const loader;

int main() {
#ifdef LEGAL
  static_cast<void>(tune::shared(batches));
#else
  static_cast<void>(tune::shared(loader));
#endif
}
