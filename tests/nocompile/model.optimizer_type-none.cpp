// refused: [fulgurite.model.optimizer_type] configure_optimizers must return by value an optimizer, scheduled(optimizer, schedule), or optimizers(a, b)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#ifdef LEGAL
  auto configure_optimizers() {
    return optimizers(toy::Sgd{{ p }});
  }
#else
  auto configure_optimizers() { return optimizers(); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
