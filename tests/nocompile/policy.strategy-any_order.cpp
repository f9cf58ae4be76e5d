// refused: [fulgurite.policy.strategy] make_trainer's second argument is no strategy: pass one such as SingleDevice{cpu}; your own declares Backend and the constants on_gpu, is_distributed, captures
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Device : toy::Device {
#ifndef LEGAL
 private:
  using toy::Device::on_gpu;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 1}, Automatic{}, Device{});
  trainer.fit(net, toy::batches(4));
}
