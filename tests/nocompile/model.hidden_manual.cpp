// refused: [fulgurite.model.hidden_manual] Manual does not cut batches along time, so `using Hidden` has no effect: slice them in training_step and remove it, or use Automatic{.tbptt = k}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifndef LEGAL
  using Hidden = toy::Tensor;
#endif
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
