// refused: [fulgurite.callback.needs_one_optimizer] a callback works with one optimizer, and configure_optimizers returns several: return one, or leave the callback out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#ifndef LEGAL
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}, toy::Sgd{{p}}); }
#endif
};
struct Averages {
  static constexpr bool needs_one_optimizer = true;
  void on_train_epoch_end() {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{}, Averages{});
  trainer.fit(net, toy::batches(4));
}
