// refused: [fulgurite.options.strategy] devices and processes are an argument beside the options: write make_trainer<Net>(TrainerOptions{...}, SingleDevice{cuda(0)}), or DistributedDataParallel{.devices = 2}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .log_every_n_steps = 5, .devices = {0, 1}},
                                      toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#endif
}
