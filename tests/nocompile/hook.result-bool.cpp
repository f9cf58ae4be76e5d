// refused: [fulgurite.hook.result] on_train_epoch_end must return void, or Stop to end training
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  Stop on_train_epoch_end() { return Stop{}; }
#else
  bool on_train_epoch_end() { return true; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
