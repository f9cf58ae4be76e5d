// refused: [fulgurite.policy.strategy_needs_gpu] this strategy runs on GPUs alone: give it a CUDA device, or use SingleDevice{cpu}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// Pieces of a model on several GPUs.
struct Pieces :
#ifdef LEGAL
    toy::Gpu
#else
    toy::Device
#endif
{
  static constexpr bool needs_gpu = true;
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Pieces{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
