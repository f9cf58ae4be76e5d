// refused: [fulgurite.options.plain_fraction] a number with a decimal point could mean a count or a part: write Batches{10} or Fraction{0.5}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .limit_train_batches = Fraction{0.5}},
                                      toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .limit_train_batches = 0.5}, toy::Device{},
                                      Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
