// refused: [fulgurite.capture.stable_gradients] a captured step needs gradients that stay where they are: use an optimizer with stable_gradients, such as fulgurite::optim::Adam
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Wandering : toy::Sgd {
#ifndef LEGAL
  static constexpr bool stable_gradients = false;
#endif
};
struct Net : toy::P {
  Wandering configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
