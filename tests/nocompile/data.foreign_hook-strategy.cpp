// refused: [fulgurite.data.foreign_hook] pre_backward is never asked of a data module: move it to the strategy
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  std::vector<double> train_dataloader() { return toy::batches(4); }
#ifndef LEGAL
  void pre_backward(auto&) {}
#endif
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
