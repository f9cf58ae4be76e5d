// refused: [fulgurite.callback.inert] this callback has no hook, so it would never be called: give it one, such as on_train_batch_end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Counter {
  using Stateless = ByChoice;
  int batches = 0;
#ifdef LEGAL
  void on_train_batch_end() { ++batches; }
#else
  void on_batch() { ++batches; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 1}, Counter{}, Automatic{}, toy::Device{}, Float32{});
  trainer.fit(net, toy::batches(4));
}
