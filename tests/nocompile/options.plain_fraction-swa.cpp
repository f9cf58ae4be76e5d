// refused: [fulgurite.options.plain_fraction] a number with a decimal point could mean an epoch or a part of them: write 8 or Fraction{0.8}
#include <toy.hpp>

#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  StochasticWeightAveraging swa{{.swa_lrs = 0.05, .swa_epoch_start = Fraction{0.75}}};
#else
  StochasticWeightAveraging swa{{.swa_lrs = 0.05, .swa_epoch_start = 0.75}};
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 4}, toy::Device{}, Float32{}, Automatic{}, swa);
  trainer.fit(net, toy::batches(4));
}
