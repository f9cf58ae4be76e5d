// refused: [fulgurite.policy.foreign_hook] optimizer_step is never asked of a strategy: move it to the model
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifndef LEGAL
  void optimizer_step(auto& optimizer, auto closure) { optimizer.step(closure); }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
