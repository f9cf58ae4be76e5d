// refused: [fulgurite.callback.dirpath] ModelCheckpoint watches a metric of the model, and its folder is an option: ModelCheckpoint{Net::val_loss, {.dirpath = "runs"}}, or ModelCheckpoint{{.dirpath = "runs"}}
#include <toy.hpp>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  ModelCheckpoint saves{{.dirpath = "runs"}};
#else
  ModelCheckpoint saves{"runs"};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, saves);
  trainer.fit(net, toy::batches(4));
}
