// refused: [fulgurite.policy.closure_needs_unscaled] an optimizer that evaluates the loss several times a step cannot work with a scaled loss: use Float32 or Bf16Mixed
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Repeating configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
#ifdef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Gpu{}, Bf16Mixed{}, Automatic{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Gpu{}, Fp16Mixed{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
