#pragma once
// What the wrong programs about sweeps share: hyper-parameters, a network that validates, data, a space and a member.

#include <apart.hpp>
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/sweep.hpp>

namespace swept {

struct Setting {
  double rate = 0.1;
};
struct Net : toy::P {
  static constexpr fulgurite::Metric<"val/loss"> val_loss{};
  using Metrics = fulgurite::MetricList<toy::P::loss, val_loss>;
  explicit Net(Setting const&) {}
  void validation_step(double, auto& ctx) { ctx.log(val_loss, p * p); }
};

inline auto const batches = toy::batches(2);
inline auto const space = fulgurite::tune::grid(fulgurite::tune::values<&Setting::rate>(0.1, 0.2));

/// One whose trainer has this strategy and these callbacks.
template <class Device, class... Callbacks>
auto member(Setting const& setting, Device device, Callbacks... callbacks) {
  using namespace fulgurite;
  return tune::Member{
      Net(setting),
      make_trainer<Net>(TrainerOptions{.max_epochs = 1}, device, Float32{}, Automatic{}, std::move(callbacks)...),
      tune::shared(batches), tune::shared(batches)};
}

}  // namespace swept
