// refused: [fulgurite.policy.foreign_hook] training_step is never asked of a strategy: move it to the model
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifndef LEGAL
  toy::Tensor training_step(double) { return {}; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
