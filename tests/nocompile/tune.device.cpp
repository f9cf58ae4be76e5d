// refused: [fulgurite.tune.device] members of a sweep train on the CPU, in one process: random numbers of a GPU belong to all of them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

struct OnGpu : toy::ApartDevice {
  static constexpr Known on_gpu = Known::yes;
};

int main() {
#ifdef LEGAL
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::ApartDevice{}, probe); };
#else
  auto const make = [](Setting const& setting, auto probe) { return member(setting, OnGpu{}, probe); };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
