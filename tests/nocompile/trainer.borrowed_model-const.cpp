// refused: [fulgurite.trainer.borrowed_model] the trainer borrows the model and changes it: pass a variable, not a temporary or a const object
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  toy::P net;
#else
  toy::P const net;
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
