// refused: [fulgurite.model.step_result] training_step must return the loss: a tensor, a struct with a tensor `.loss`, or an optional of these
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  auto training_step(double) { return std::optional(-p); }
#else
  double training_step(double) { return (-p).value(); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
