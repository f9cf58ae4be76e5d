// refused: [fulgurite.callback.single_process] this callback tries out settings, and each process would find others: run it with SingleDevice, then train with what it found
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

using namespace fulgurite;

struct Many : toy::Device {
#ifndef LEGAL
  static constexpr bool is_distributed = true;
#endif
};
int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{}, BatchSizeFinder<toy::P>{});
  trainer.fit(net, toy::batches(4));
}
