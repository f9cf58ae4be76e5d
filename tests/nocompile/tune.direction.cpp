// refused: [fulgurite.tune.direction] a sweep cannot know whether a low value is a good one: say .mode = Mode::min or .mode = Mode::max
// flags: -Wno-missing-field-initializers
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

int main() {
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::ApartDevice{}, probe); };
#ifdef LEGAL
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
#else
  tune::sweep(make, space, Net::val_loss, {.rungs = {1}});
#endif
}
