// refused: [fulgurite.capture.automatic] steps of manual optimization are replayed by Captured{SingleDevice{...}} alone: use Automatic{}, or this strategy without capturing
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Net : toy::P {
#ifndef LEGAL
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#endif
};

int main() {
  Net net;
#ifdef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Manual{});
#endif
  trainer.fit(net, toy::batches(4));
}
