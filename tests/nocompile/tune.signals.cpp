// refused: [fulgurite.tune.signals] the sweep ends its members itself after Ctrl-C: leave Signals out of their trainers
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

int main() {
#ifdef LEGAL
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::ApartDevice{}, probe); };
#else
  auto const make = [](Setting const& setting, auto probe) {
    return member(setting, toy::ApartDevice{}, probe, Signals{});
  };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
