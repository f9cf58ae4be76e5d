// refused: [fulgurite.context.automatic_only] under Manual there may be several optimizers: write `auto& [optimizer] = ctx.optimizers();`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
#ifdef LEGAL
    auto& [optimizer] = ctx.optimizers();
#else
    auto& optimizer = ctx.optimizer();
#endif
    auto loss = p * -1.0;
    ctx.minimize(optimizer, loss);
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
