// refused: [fulgurite.model.class] make_trainer<Model> needs a class that is defined before this call: no pointer, reference or const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net;
#ifdef LEGAL
struct Net : toy::P {};
#endif
void train(Net& net) {
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
#ifndef LEGAL
struct Net : toy::P {};
#endif

int main() {
  Net net;
  train(net);
}
