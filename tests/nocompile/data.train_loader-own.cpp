// refused: [fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data module with train_dataloader()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  auto train_dataloader() { return toy::batches(4); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net);
}
