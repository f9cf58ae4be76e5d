// refused: [fulgurite.trainer.arguments] make_trainer<Model> takes TrainerOptions, then strategy, precision, optimization and callbacks in any order, and makes the trainer's type: pass TrainerOptions first
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  Trainer<toy::P> trainer(TrainerOptions{.max_epochs = 1});
#endif
  trainer.fit(net, toy::batches(4));
}
