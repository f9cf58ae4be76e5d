// refused: [fulgurite.hook.parameters] on_train_batch_end cannot be called: make it a public function, on_train_batch_end(auto& outputs, auto& batch, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  template <class Run>
  void on_train_batch_end(double, RunContext<Run, phase::Train>&) {}
#else
  template <class Run>
  void on_train_batch_end(RunContext<Run, phase::Train>&, double) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
