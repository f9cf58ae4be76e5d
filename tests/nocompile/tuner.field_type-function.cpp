// refused: [fulgurite.tuner.field_type] a learning rate is put into a member of type double or float: give it that type, and a function that finds it returns a reference, [](Net& net) -> double& { ... }
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double rate = 1;
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifndef LEGAL
  tune::lr_find(trainer, net, toy::batches(4), {.update = [](Net& model) { return model.rate; }});
#else
  tune::lr_find(trainer, net, toy::batches(4), {.update = [](Net& model) -> double& { return model.rate; }});
#endif
}
