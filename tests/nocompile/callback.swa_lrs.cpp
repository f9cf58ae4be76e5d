// refused: [fulgurite.callback.swa_lrs] the learning rate of the averaged weights has no default: write StochasticWeightAveraging{{.swa_lrs = 0.05}}
#include <toy.hpp>

#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  StochasticWeightAveraging callback{{.swa_lrs = 0.05}};
#else
  StochasticWeightAveraging callback;
#endif
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
