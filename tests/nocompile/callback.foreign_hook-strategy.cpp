// refused: [fulgurite.callback.foreign_hook] pre_backward is never asked of a callback: move it to the strategy
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifndef LEGAL
  void pre_backward(auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
