// refused: [fulgurite.hook.skip_epoch] on_train_batch_end returns Flow, and only on_train_batch_start can leave an epoch: return void, or Stop where training may end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  Flow on_train_batch_start(auto&) { return Flow::skip_epoch; }
#else
  Flow on_train_batch_end(auto&) { return Flow::skip_epoch; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
