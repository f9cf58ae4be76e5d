// refused: [fulgurite.callback.final] the hooks of a final class cannot be seen: remove `final` from the callback
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
struct Watcher {
#else
struct Watcher final {
#endif
  void on_train_batch_end() {}
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
