// refused: [fulgurite.options.limit_text] how much of a loader is used is a number, not a text: write 10 for batches, or Fraction{0.5}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  TrainerOptions const options{.max_epochs = 1, .limit_train_batches = Fraction{0.5}};
#else
  TrainerOptions const options{.max_epochs = 1, .limit_train_batches = "0.5"};
#endif
  auto trainer = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
