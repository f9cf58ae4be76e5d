// refused: [fulgurite.capture.hook] a captured step is replayed without calling backward: leave it out, or, if it only computes with tensors, declare `static constexpr bool acts_on_tensors = true`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Net : toy::P {
#ifdef LEGAL
  static constexpr bool acts_on_tensors = true;
#endif
  void backward(auto& value) { value.backward(); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
