// refused: [fulgurite.options.overfit] overfit_batches: it sets limit_train_batches and limit_val_batches itself: leave those out, or it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 1, .overfit_batches = 2}; }),
                                      toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(
      constant([] { return TrainerOptions{.max_epochs = 1, .limit_val_batches = 3, .overfit_batches = 2}; }),
      toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
