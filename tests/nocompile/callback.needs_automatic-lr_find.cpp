// refused: [fulgurite.callback.needs_automatic] this callback changes the accumulation window or the schedule, which Manual leaves to training_step: use Automatic{}, or leave it out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

struct Net {
  double lr = 0.1;
  toy::Tensor p = toy::Tensor::parameter(0.0);
#ifndef LEGAL
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#else
  toy::Tensor training_step(double) { return -p; }
#endif
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = lr}; }
};

int main() {
#ifndef LEGAL
  Manual const how;
#else
  Automatic const how;
#endif
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, how);
  tune::lr_find(trainer, net, toy::batches(4));
}
