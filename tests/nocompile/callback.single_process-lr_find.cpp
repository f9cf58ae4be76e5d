// refused: [fulgurite.callback.single_process] this callback tries out settings, and each process would find others: run it with SingleDevice, then train with what it found
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Many = toy::Device;
#else
using Many = toy::Several;
#endif
struct Net : toy::P {
  double lr = 0.1;
};

int main() {
  Net net;
  auto trainer =
      make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{}, LearningRateFinder<Net>{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
