// refused: [fulgurite.trainer.callback] this trainer has no callback of that type: name one of those given to make_trainer
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Counter {
  using Stateless = ByChoice;
  int batches = 0;
  void on_train_batch_end() { ++batches; }
};
struct Other : Counter {};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Counter{});
  trainer.fit(net, toy::batches(4));
#ifdef LEGAL
  return trainer.callback<Counter>().batches;
#else
  return trainer.callback<Other>().batches;
#endif
}
