// refused: [fulgurite.trainer.twice] make_trainer is given two strategies: keep one of them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// W94: a strategy that is given twice.
int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::SomeDevice{}, Float32{}, Automatic{});
#else
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, toy::SomeDevice{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
