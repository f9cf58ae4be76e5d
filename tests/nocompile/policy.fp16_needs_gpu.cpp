// refused: [fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use Bf16Mixed, or a CUDA device
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Bf16Mixed{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Fp16Mixed{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
