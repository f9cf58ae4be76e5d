// refused: [fulgurite.policy.clip_number] a limit says what it limits: ClipNorm{1.0}, the norm of all gradients together, or ClipValue{1.0}, each element
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  Automatic const how{.clip = ClipNorm{1.0}};
#else
  Automatic const how{.clip = "norm"};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, how);
  trainer.fit(net, toy::batches(4));
}
