// refused: [fulgurite.callback.unnamed_option] options are given by their names, in braces of their own: write ProgressBar{{.leave = true}}, CSVLogger{"logs", {.name = "mlp"}} or EarlyStopping{Net::val_loss, {.patience = 5}}
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  SpikeDetection callback{toy::P::loss, {.window = 3}};
#else
  SpikeDetection callback{toy::P::loss, 3};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, callback);
  trainer.fit(net, toy::batches(4));
}
