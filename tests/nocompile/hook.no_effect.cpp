// refused: [fulgurite.hook.no_effect] on_test_epoch_end returns Stop, but nothing can be stopped there: return void
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_test_epoch_end() {}
#else
  Stop on_test_epoch_end() { return Stop{}; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
