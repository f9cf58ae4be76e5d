// refused: [fulgurite.options.precision] the precision is an argument beside the options: write make_trainer<Net>(TrainerOptions{...}, Bf16Mixed{}), or Fp16Mixed{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .precision = "bf16-mixed"}, toy::Device{},
                                      Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#endif
}
