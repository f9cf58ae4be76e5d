// refused: [fulgurite.data.returns_nothing] a function that is asked for a loader, such as train_dataloader, returns nothing: return the loader
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
};
struct Digits {
  auto train_dataloader() { return toy::batches(4); }
#ifdef LEGAL
  auto val_dataloader() { return toy::batches(4); }
#else
  void val_dataloader() {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Digits{});
}
