// refused: [fulgurite.tune.direction] a sweep cannot know whether a low value is a good one: say .mode = Mode::min or .mode = Mode::max
// flags: -Wno-missing-field-initializers
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

int main() {
  auto const batches = toy::batches(2);
  auto const space = tune::grid(tune::values<&Setting::rate>(0.1, 0.2));
  auto const make = [&](Setting const& setting, [[maybe_unused]] auto probe) {
    return tune::Member{
        Net(setting),
        make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::ApartDevice{}, Float32{}, Automatic{}, probe),
        tune::shared(batches), tune::shared(batches)};
  };
#ifdef LEGAL
  tune::sweep(make, space, Net::val_loss, {.mode = Mode::min});
#else
  tune::sweep(make, space, Net::val_loss, {.rungs = {1}});
#endif
}
