// refused: [fulgurite.context.manual_only] only a manual training_step has ctx.backward: return the loss, or use Manual{}
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  auto training_step(double, auto& ctx) {
    auto value = -p;
    ctx.log(loss, value);
#ifndef LEGAL
    ctx.backward(value);
#endif
    return value;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
