// refused: [fulgurite.context.all_optimizers] under Manual, the optimizers are a tuple, also when there is only one: write `auto& [optimizer] = ctx.optimizers()`, then optimizer.zero_grad(), ctx.backward(loss), ctx.step(optimizer)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
#ifdef LEGAL
    auto& [optimizer] = ctx.optimizers();
    auto const alone = ctx.toggle(optimizer);
#else
    auto& optimizer = ctx.optimizers();
    auto const alone = ctx.toggle(optimizer);
#endif
    ctx.backward(-p);
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
