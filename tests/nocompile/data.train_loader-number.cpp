// refused: [fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data module with train_dataloader()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, toy::batches(4));
#else
  trainer.fit(net, 4);
#endif
}
