// refused: [fulgurite.tune.terminal] bars of several members would overwrite one another: give their trainers NoDefaults{} or NoProgressBar{}, and say .verbose = true to the sweep
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

int main() {
#ifdef LEGAL
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::ApartDevice{}, probe); };
#else
  auto const make = [](Setting const& setting, auto probe) {
    return member(setting, toy::ApartDevice{}, probe, ProgressBar{});
  };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
