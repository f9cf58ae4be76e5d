// refused: [fulgurite.optimizer.state_in_parts] with this strategy each process keeps a part of the optimizer's state, which this optimizer cannot part: use one of fulgurite::optim, such as optim::AdamW, or DistributedDataParallel
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// Each process keeps a part of what optimizers keep.
struct Sharded : toy::Several {
  static constexpr bool shards_state = true;
};
struct Parting : toy::Sgd {
#ifdef LEGAL
  static constexpr bool state_in_parts = true;
#endif
};
struct Net : toy::P {
  Parting configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Sharded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
