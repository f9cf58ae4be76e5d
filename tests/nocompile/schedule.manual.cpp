// refused: [fulgurite.schedule.manual] Manual steps no schedule, so interval and frequency have no effect: write scheduled(optimizer, schedule) and step it through ctx.lr_schedulers()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
  static double half(long moves) { return moves == 0 ? 1.0 : 0.5; }
  auto configure_optimizers() {
#ifdef LEGAL
    return scheduled(toy::Sgd{{ p }}, &half);
#else
    return scheduled(toy::Sgd{{p}}, &half, {.interval = Interval::step});
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
