// refused: [fulgurite.options.callbacks] callbacks, loggers and profilers are arguments beside the options: write make_trainer<Net>(TrainerOptions{...}, EarlyStopping{Net::loss}, CSVLogger{}, SimpleProfiler{})
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#else
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .logger = false}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#endif
}
