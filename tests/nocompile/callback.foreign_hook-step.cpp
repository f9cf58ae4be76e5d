// refused: [fulgurite.callback.foreign_hook] validation_step is never asked of a callback: move it to the model
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifndef LEGAL
  void validation_step(double) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
