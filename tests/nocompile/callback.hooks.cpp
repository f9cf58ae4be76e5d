// refused: [fulgurite.callback.hooks] the callback's `Hooks` is no list of hooks: write `using Hooks = Implements<hook::on_train_start>`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  using Hooks = Implements<hook::on_train_start>;
#else
  using Hooks = std::tuple<hook::on_train_start>;
#endif
  void on_train_start() {}
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
