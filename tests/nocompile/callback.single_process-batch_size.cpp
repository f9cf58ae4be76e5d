// refused: [fulgurite.callback.single_process] this callback tries out settings, and each process would find others: run it with SingleDevice, then train with what it found
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Many = toy::Device;
#else
using Many = toy::Several;
#endif
int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{}, BatchSizeFinder<toy::P>{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
