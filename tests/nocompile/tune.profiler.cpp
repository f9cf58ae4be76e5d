// refused: [fulgurite.tune.profiler] there is one recording of operators in a process: leave AdvancedProfiler out, and record a fit of one setting by itself
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/sweep.hpp>

#include <swept.hpp>

using namespace fulgurite;
using namespace swept;

struct Recorder {
  using Stateless = ByChoice;
  static constexpr bool records_process = true;
  void on_train_batch_start() {}
};

int main() {
#ifdef LEGAL
  auto const make = [](Setting const& setting, auto probe) { return member(setting, toy::ApartDevice{}, probe); };
#else
  auto const make = [](Setting const& setting, auto probe) {
    return member(setting, toy::ApartDevice{}, probe, Recorder{});
  };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
