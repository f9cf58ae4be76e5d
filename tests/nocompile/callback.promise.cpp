// refused: [fulgurite.callback.promise] the callback's `Hooks` lists on_train_batch_end, but it has no such member: correct the name, or the list
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  using Hooks = Implements<hook::on_train_start, hook::on_train_batch_end>;
  void on_train_start() {}
#ifdef LEGAL
  void on_train_batch_end() {}
#else
  void on_train_bach_end() {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
