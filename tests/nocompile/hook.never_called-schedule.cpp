// refused: [fulgurite.hook.never_called] lr_scheduler_step is never called under Manual: do its work in training_step, or use Automatic
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#ifndef LEGAL
  void lr_scheduler_step(auto&) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
