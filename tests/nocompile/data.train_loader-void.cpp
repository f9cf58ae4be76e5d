// refused: [fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data module with train_dataloader()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
#ifdef LEGAL
  std::vector<double> train_dataloader() { return toy::batches(4); }
#else
  void train_dataloader() { toy::batches(4); }
#endif
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
