// refused: [fulgurite.hook.near_miss] validation_dataloader is not a hook and would never be called: use val_dataloader
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A data module.
struct Data {
#ifdef LEGAL
  auto train_dataloader() { return toy::batches(4); }
  auto val_dataloader() { return toy::batches(2); }
#else
  auto train_dataloader() { return toy::batches(4); }
  auto validation_dataloader() { return toy::batches(2); }
#endif
};
struct Net : toy::P {
  void validation_step(double) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Data{});
}
