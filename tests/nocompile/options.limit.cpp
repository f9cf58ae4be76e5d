// refused: [fulgurite.options.limit] limit_val_batches: a count from 0 on, or a Fraction from 0 to 1
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer =
      make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 1, .limit_val_batches = Fraction{0.5}}; }),
                           toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer =
      make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 1, .limit_val_batches = Fraction{1.5}}; }),
                           toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
