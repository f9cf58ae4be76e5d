// refused: [fulgurite.hook.parameters] backward cannot be called: make it a public function, backward(auto& loss, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.minimize(optimizer, p * -1.0);
  }
#ifdef LEGAL
  void backward(toy::Tensor& root) { root.backward(); }
#else
  void backward(toy::Tensor& root, double scale) { (root * scale).backward(); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
