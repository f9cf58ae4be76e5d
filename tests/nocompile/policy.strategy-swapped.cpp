// refused: [fulgurite.policy.strategy] make_trainer's second argument is no strategy: pass one such as SingleDevice{cpu}; your own declares Backend and the constants on_gpu, is_distributed, captures
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Float32{}, toy::Device{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
