// refused: [fulgurite.trainer.twice] make_trainer is given one tag, such as NoLogger{}, twice: keep one of them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// NoDefaults leaves out the logger, too.
int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{}, NoDefaults{});
#endif
  trainer.fit(net, toy::batches(4));
}
