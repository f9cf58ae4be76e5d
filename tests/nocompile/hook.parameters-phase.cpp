// refused: [fulgurite.hook.parameters] on_train_epoch_end cannot be called: make it a public function, on_train_epoch_end(auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  template <class Run>
  void on_train_epoch_end(RunContext<Run, phase::Train>&) {}
#else
  template <class Run>
  void on_train_epoch_end(RunContext<Run, phase::Validate>&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
