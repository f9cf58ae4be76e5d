// refused: [fulgurite.callback.class] a callback is an object with hooks, given by value: pass no pointer, number or text
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#include <memory>

struct Counts {
  void on_train_start() {}
};

int main() {
  toy::P net;
  auto counts = std::make_shared<Counts>();
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, *counts);
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, counts);
#endif
  trainer.fit(net, toy::batches(4));
}
