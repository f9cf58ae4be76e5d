// refused: [fulgurite.callback.class] a callback is an object with hooks, given by value: pass no pointer, number or text
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  using Stateless = ByChoice;
  int batches = 0;
  void on_train_batch_end() { ++batches; }
};

int main() {
  toy::P net;
  Watcher watcher;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, watcher);
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, &watcher);
#endif
  trainer.fit(net, toy::batches(4));
}
