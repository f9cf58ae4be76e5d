// refused: [fulgurite.model.one_optimizer] automatic optimization drives exactly one optimizer: return one, or use Manual{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    ctx.minimize(first, -p);
    ctx.minimize(second, -p);
  }
#endif
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}, toy::Sgd{{p}}); }
};

int main() {
  Net net;
#ifdef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
