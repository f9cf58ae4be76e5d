// refused: [fulgurite.tune.device] members of a sweep train on the CPU, in one process: random numbers of a GPU belong to all of them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/sweep.hpp>

#include <apart.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
};
struct Net : toy::P {
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<toy::P::loss, val_loss>;
  explicit Net(Setting const&) {}
  void validation_step(double, auto& ctx) { ctx.log(val_loss, p * p); }
};
struct OnGpu : toy::ApartDevice {
  static constexpr Known on_gpu = Known::yes;
};

int main() {
  auto const batches = toy::batches(2);
  auto const space = tune::grid(tune::values<&Setting::rate>(0.1, 0.2));
#ifdef LEGAL
  auto const make = [&](Setting const& setting, [[maybe_unused]] auto probe) {
    return tune::Member{
        Net(setting),
        make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::ApartDevice{}, Float32{}, Automatic{}, probe),
        tune::shared(batches), tune::shared(batches)};
  };
#else
  auto const make = [&](Setting const& setting, [[maybe_unused]] auto probe) {
    return tune::Member{Net(setting),
                        make_trainer<Net>(TrainerOptions{.max_epochs = 1}, OnGpu{}, Float32{}, Automatic{}, probe),
                        tune::shared(batches), tune::shared(batches)};
  };
#endif
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
}
