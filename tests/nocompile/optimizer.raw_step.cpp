// refused: [fulgurite.optimizer.raw_step] optimizer.step() would go past the precision, the hooks and the count of steps: call ctx.step(optimizer), or ctx.minimize(optimizer, loss)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(-p);
#ifdef LEGAL
    ctx.step(optimizer);
#else
    optimizer.step();
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
