// refused: [fulgurite.trainer.ckpt_path] the file to resume from is the last argument of a call, and no option: write trainer.fit(model, data, CkptPath{"last"})
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), CkptPath{"last"});
#else
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .ckpt_path = "last"}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#endif
}
