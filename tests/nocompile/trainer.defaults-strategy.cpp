// refused: [fulgurite.trainer.defaults] make_trainer adds a bar, a summary, a log, a checkpoint and a table, and a strategy where none is named: #include <fulgurite/defaults.hpp>, or name a strategy and NoDefaults{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, NoDefaults{});
#endif
  trainer.fit(net, toy::batches(4));
}
