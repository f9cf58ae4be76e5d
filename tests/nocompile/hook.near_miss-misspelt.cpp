// refused: [fulgurite.hook.near_miss] on_vaildation_epoch_end is not a hook and would never be called: use on_validation_epoch_end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  void on_validation_epoch_end() {}
#else
  void on_vaildation_epoch_end() {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
