// refused: [fulgurite.data.returns_nothing] a function that is asked for a loader, such as train_dataloader, returns nothing: return the loader
#include <toy.hpp>

#include <vector>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Digits {
  std::vector<double> batches = toy::batches(4);
#ifdef LEGAL
  auto& train_dataloader() { return batches; }
#else
  void train_dataloader() {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Digits{});
}
