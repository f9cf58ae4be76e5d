// refused: [fulgurite.capture.hook] a captured step is replayed without calling on_after_backward: use on_before_optimizer_step, or, if it only computes with tensors, declare `static constexpr bool acts_on_tensors = true`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct CountsGradients {
  using Stateless = ByChoice;
  long seen = 0;
#ifdef LEGAL
  void on_before_optimizer_step() { ++seen; }
#else
  void on_after_backward() { ++seen; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{}, CountsGradients{});
  trainer.fit(net, toy::batches(4));
}
