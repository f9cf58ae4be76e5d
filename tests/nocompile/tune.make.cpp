// refused: [fulgurite.tune.make] the function that makes a member takes (Setting const&, probe) and returns tune::Member{model, trainer, data}
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
  auto const make = [](Setting const& setting, auto) { return Net(setting); };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
