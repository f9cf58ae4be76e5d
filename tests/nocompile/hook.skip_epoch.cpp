// refused: [fulgurite.hook.skip_epoch] on_train_epoch_end returns Flow, and only on_train_batch_start can leave an epoch: return void, or Stop where training may end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  Stop on_train_epoch_end() { return Stop{}; }
#else
  Flow on_train_epoch_end() { return Flow::stop; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
