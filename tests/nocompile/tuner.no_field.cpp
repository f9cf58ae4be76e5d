// refused: [fulgurite.tuner.no_field] the model has neither `lr` nor `learning_rate` to put the rate into: say where by .update = &Net::rate, or .update = nullptr to have the result alone
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double rate = 0.1;
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifndef LEGAL
  tune::lr_find(trainer, net, toy::batches(4), {.max_lr = 0.1});
#else
  tune::lr_find(trainer, net, toy::batches(4), {.max_lr = 0.1, .update = &Net::rate});
#endif
}
