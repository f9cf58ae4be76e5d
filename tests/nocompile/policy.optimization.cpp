// refused: [fulgurite.policy.optimization] make_trainer's fourth argument is no optimization: pass Automatic{} or Manual{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{.clip = ClipNorm{0.5}});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, ClipNorm{0.5});
#endif
  trainer.fit(net, toy::batches(4));
}
