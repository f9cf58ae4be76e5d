// refused: [fulgurite.trainer.snapshot] the snapshot is of a trainer of another model, strategy, precision or optimization: take one of this trainer, by snapshot(trainer)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  TrainerOptions const options{.max_epochs = 1};
  auto trainer = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  auto other = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
#else
  auto other = make_trainer<toy::P>(options, toy::Gpu{}, Float32{}, Automatic{});
#endif
  other.fit(net, toy::batches(4));
  trainer.fit(net, toy::batches(4), snapshot(other));
}
