// refused: [fulgurite.trainer.ckpt_path] the file to resume from is the last argument of a call, and no option: write trainer.fit(model, data, CkptPath{"last"})
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, toy::batches(4), NoValidation{});
#else
  trainer.fit(net, toy::batches(4), NoValidation{}, {.ckpt_path = "last"});
#endif
}
