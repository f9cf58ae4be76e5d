// refused: [fulgurite.callback.foreign_hook] on_before_batch_transfer is never asked of a callback: move it to the model or the data module
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifndef LEGAL
  double on_before_batch_transfer(double batch) { return batch; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
