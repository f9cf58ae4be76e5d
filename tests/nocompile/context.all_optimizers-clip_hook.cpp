// refused: [fulgurite.context.all_optimizers] under Manual, the optimizers are a tuple, also when there is only one: write `auto& [optimizer] = ctx.optimizers()`, and use that
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double rate = 0;
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
  void on_after_backward(auto& ctx) {
#ifdef LEGAL
    auto& [optimizer] = ctx.optimizers();
    ctx.clip_gradients(optimizer, ClipNorm{1.0});
#else
    ctx.clip_gradients(ctx.optimizers(), ClipNorm{1.0});
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
