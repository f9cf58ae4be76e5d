// refused: [fulgurite.trainer.ckpt_path] the file to resume from is the last argument of a call, and no option: write trainer.fit(model, data, CkptPath{"last"})
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  auto train_dataloader() { return toy::batches(4); }
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, data, {});
#else
  trainer.fit(net, data, {.ckpt_path = "last"});
#endif
}
