// refused: [fulgurite.optimizer.closure] this optimizer evaluates the loss several times a step: call ctx.step(optimizer, closure)
#include <toy.hpp>

#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) {
    auto& optimizer = std::get<0>(ctx.optimizers());
#ifdef LEGAL
    ctx.step(optimizer, [&] {
      optimizer.zero_grad();
      auto value = -p;
      ctx.backward(value);
      return value;
    });
#else
    optimizer.zero_grad();
    ctx.backward(-p);
    ctx.step(optimizer);
#endif
  }
  toy::Repeating configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(net, toy::batches(4));
}
