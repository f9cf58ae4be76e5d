// refused: [fulgurite.trainer.twice] make_trainer is given two precisions: keep one of them
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
