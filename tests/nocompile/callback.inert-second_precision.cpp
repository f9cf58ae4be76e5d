// refused: [fulgurite.callback.inert] this callback has no hook, so it would never be called: give it one, such as on_train_batch_end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// W94: a precision that is given twice.
int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Bf16Mixed{}, Automatic{});
#else
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Bf16Mixed{});
#endif
  trainer.fit(net, toy::batches(4));
}
