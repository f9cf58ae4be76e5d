// refused: [fulgurite.tune.backend] this tensor library has no random numbers for one thread alone: its backend needs a class Apart
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
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::Device{}, probe); };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
