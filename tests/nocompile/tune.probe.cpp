// refused: [fulgurite.tune.probe] the sweep cannot see this member: put the probe, which the function that makes it gets, among the callbacks of its trainer
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

int main() {
#ifdef LEGAL
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::ApartDevice{}, probe); };
#else
  auto const make = [](Setting const& setting, auto) { return member(setting, toy::ApartDevice{}); };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
