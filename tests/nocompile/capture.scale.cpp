// refused: [fulgurite.capture.scale] the model's own backward receives the loss times a scale that changes, and a captured step would keep the first: use Float32 or Bf16Mixed, or leave backward out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Gpu {
  static constexpr bool captures = true;
};
struct Net : toy::P {
  static constexpr bool acts_on_tensors = true;
#ifndef LEGAL
  void backward(auto& value) { value.backward(); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Fp16Mixed{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
