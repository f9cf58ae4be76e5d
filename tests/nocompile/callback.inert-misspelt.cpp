// refused: [fulgurite.callback.inert] this callback has no hook, so it would never be called: give it one, such as on_train_batch_end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_train_batch_end() {}
  void on_train_start() {}
#else
  void on_train_bach_end() {}
  void on_tarin_start() {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
