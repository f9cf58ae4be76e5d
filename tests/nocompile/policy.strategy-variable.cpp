// refused: [fulgurite.policy.strategy] make_trainer's second argument is no strategy: pass one such as SingleDevice{cpu}; your own declares Backend and the constants on_gpu, is_distributed, captures
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Device : toy::Device {
#ifdef LEGAL
  static constexpr bool captures = false;
#else
  bool captures = false;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
