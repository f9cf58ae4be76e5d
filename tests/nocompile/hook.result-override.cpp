// refused: [fulgurite.hook.result] backward must return void
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// The way back through an invertible net is no way of the gradients.
struct Net : toy::P {
#ifdef LEGAL
  toy::Tensor inverse(toy::Tensor z) { return z - p; }
#else
  toy::Tensor backward(toy::Tensor z) { return z - p; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
