// refused: [fulgurite.hook.batch_result] a transfer hook returns nothing, and the step gets what it returns: return the batch
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  double on_after_batch_transfer(double batch, auto&) { return 2 * batch; }
#else
  void on_after_batch_transfer(double& batch, auto&) { batch *= 2; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
