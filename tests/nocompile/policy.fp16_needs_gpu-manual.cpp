// refused: [fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use Bf16Mixed, or a CUDA device
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
};

int main() {
  Net net;
#ifdef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Gpu{}, Fp16Mixed{}, Manual{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Fp16Mixed{}, Manual{});
#endif
  trainer.fit(net, toy::batches(4));
}
