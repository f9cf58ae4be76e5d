// refused: [fulgurite.capture.hook] a captured step is replayed without calling on_before_backward: use on_before_optimizer_step, or, if it only computes with tensors, declare `static constexpr bool acts_on_tensors = true`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Quiet {
  static constexpr bool acts_on_tensors = true;
  void on_before_backward() {}
};
struct Squares {
#ifdef LEGAL
  static constexpr bool acts_on_tensors = true;
#endif
  void on_before_backward(auto& loss, auto&) { loss = loss * loss; }
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{}, Quiet{}, Squares{});
  trainer.fit(net, toy::batches(4));
}
