// refused: [fulgurite.callback.unnamed_option] options are given by their names, in braces of their own: write ProgressBar{{.leave = true}}, CSVLogger{"logs", {.name = "mlp"}} or EarlyStopping{Net::val_loss, {.patience = 5}}
#include <toy.hpp>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  ModelCheckpoint callback{toy::P::loss, {.save_top_k = 3}};
#else
  ModelCheckpoint callback{toy::P::loss, 3};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, callback);
  trainer.fit(net, toy::batches(4));
}
