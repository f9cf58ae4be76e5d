// refused: [fulgurite.context.manual_backward] Lightning's manual_backward is called backward here: write ctx.backward(loss) in a manual training_step
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
#ifdef LEGAL
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(-p);
    ctx.step(optimizer);
#else
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.manual_backward(-p);
    ctx.step(optimizer);
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
