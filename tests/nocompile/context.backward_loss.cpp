// refused: [fulgurite.context.backward_loss] ctx.backward and ctx.minimize take the loss, which is a tensor: pass the one that the model computed
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
#ifdef LEGAL
    ctx.backward(-p);
#else
    ctx.backward(1.0);
#endif
    ctx.step(optimizer);
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
