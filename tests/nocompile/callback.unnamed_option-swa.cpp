// refused: [fulgurite.callback.unnamed_option] options are given by their names, in braces of their own: write ProgressBar{{.leave = true}}, CSVLogger{"logs", {.name = "mlp"}} or EarlyStopping{Net::val_loss, {.patience = 5}}
#include <toy.hpp>

#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  StochasticWeightAveraging callback{{.swa_lrs = 0.05}};
#else
  StochasticWeightAveraging callback{0.05};
#endif
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
