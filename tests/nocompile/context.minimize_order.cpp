// refused: [fulgurite.context.minimize_order] ctx.minimize takes the optimizer, then the loss: write ctx.minimize(optimizer, loss)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
#ifdef LEGAL
    ctx.minimize(optimizer, -p);
#else
    ctx.minimize(-p, optimizer);
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
