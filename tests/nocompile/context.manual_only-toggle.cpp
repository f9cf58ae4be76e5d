// refused: [fulgurite.context.manual_only] only a manual training_step has ctx.toggle: use Manual{} for several optimizers
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(double batch, auto& ctx) {
#ifndef LEGAL
    [[maybe_unused]] auto const scope = ctx.toggle(ctx.optimizer());
#endif
    ctx.log(loss, batch);
    return p * batch;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
