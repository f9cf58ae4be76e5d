// refused: [fulgurite.policy.precision] make_trainer's third argument is no precision: pass one such as Float32{}; your own declares the constants parameters, compute, autocasts, scales_loss
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
