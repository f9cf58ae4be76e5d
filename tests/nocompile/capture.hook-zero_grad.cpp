// refused: [fulgurite.capture.hook] a captured step is replayed without calling optimizer_zero_grad: leave it out, or, if it only computes with tensors, declare `static constexpr bool acts_on_tensors = true`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Net : toy::P {
#ifndef LEGAL
  void optimizer_zero_grad(auto& optimizer) { optimizer.zero_grad(); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
