// refused: [fulgurite.tuner.field_type] a learning rate is put into a member of type double or float: give it that type, and a function that finds it returns a reference, [](Net& net) -> double& { ... }
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifndef LEGAL
  int lr = 1;
#else
  double lr = 1;
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  tune::lr_find(trainer, net, toy::batches(4));
}
