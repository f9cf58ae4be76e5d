// refused: [fulgurite.hook.result] on_train_batch_start must return void, Stop to end training, or Flow: Lightning's -1 is `return Flow::skip_epoch`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  Flow on_train_batch_start() { return Flow::skip_epoch; }
#else
  int on_train_batch_start() { return -1; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
