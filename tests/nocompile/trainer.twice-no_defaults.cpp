// refused: [fulgurite.trainer.twice] make_trainer is given NoDefaults{}, which leaves out everything that is added, and one more tag, such as NoLogger{}: keep NoDefaults{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// NoDefaults leaves out the logger, too.
int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoLogger{}, NoDefaults{});
#endif
  trainer.fit(net, toy::batches(4));
}
